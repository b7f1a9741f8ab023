"use strict";
// What if: every rule's slider, answered from the sample embedded in the page. One byte per document and rule says how
// many stops the document's metric passes; a rule at stop k keeps a document when k < byte (minimum) or k >= byte.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const decode = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const count = new Intl.NumberFormat("en");
  const signed = new Intl.NumberFormat("en", { signDisplay: "always" });
  const scale = (v, digits) => v.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });

  for (const chart of document.querySelectorAll(".chart[data-bins]")) {
    const bins = JSON.parse(chart.dataset.bins);
    const readout = chart.nextElementSibling;
    const say = (bin) => {
      readout.textContent = chart.classList.contains("single")
        ? `${bin[1]}: ${count.format(bin[2])} documents`
        : `${bin[1]}: ${count.format(bin[2])} kept, ${count.format(bin[3])} rejected`;
    };
    chart.addEventListener("pointermove", (event) => {
      const box = chart.getBoundingClientRect();
      const at = (100 * (event.clientX - box.left)) / box.width;
      const before = bins.filter((bin) => bin[0] <= at);
      if (before.length) say(before[before.length - 1]);
    });
    chart.addEventListener("pointerleave", () => { readout.textContent = ""; });
  }
  if (!data) return;

  const rules = data.rules.map((rule) => ({ ...rule, places: decode(rule.places), now: rule.at, on: rule.isOn }));
  const sizes = new Uint32Array(decode(data.sizes).buffer);
  const n = data.sampled;
  const isWhole = n === data.population;

  const passes = (positions) => {
    const kept = new Uint8Array(n).fill(1);
    rules.forEach((rule, r) => {
      const [at, isOn] = positions(rule);
      if (!isOn) return;
      const places = rule.places;
      if (rule.isMinimum) { for (let d = 0; d < n; d++) if (at >= places[d]) kept[d] = 0; }
      else { for (let d = 0; d < n; d++) if (at < places[d]) kept[d] = 0; }
    });
    return kept;
  };
  const before = passes((rule) => [rule.at, rule.isOn]);

  // The run's own counts are exact; what changes is scaled up from the sample, with twice its standard error.
  const estimate = () => {
    const after = passes((rule) => [rule.now, rule.on]);
    let documents = 0, bytes = 0, squares = 0, byteSquares = 0;
    for (let d = 0; d < n; d++) {
      const change = after[d] - before[d];
      if (!change) continue;
      documents += change; bytes += change * sizes[d];
      squares += 1; byteSquares += sizes[d] * sizes[d];
    }
    const factor = data.population / Math.max(n, 1);
    const error = (sum, sumSquares) =>
      isWhole ? 0 : 2 * factor * Math.sqrt(Math.max(sumSquares - (sum * sum) / n, 0) * (1 - n / data.population));
    return {
      documents: documents * factor, documentsError: error(documents, squares),
      bytes: bytes * factor, bytesError: error(bytes, byteSquares),
    };
  };

  const panel = document.getElementById("whatif");
  const put = (name, total, change, error, format) => {
    const cell = panel.querySelector(`[data-out="${name}"]`);
    if (!cell) return;
    const shift = change ? ` <em class="${change > 0 ? "up" : "down"}">${format(change, true)}</em>` : "";
    cell.innerHTML = format(total, false) + shift + (error ? ` <em>± ${format(error, false)}</em>` : "");
  };
  const whole = (v, sign) => (sign ? signed : count).format(Math.round(v));
  const mega = (v, sign) => (sign && v > 0 ? "+" : "") + scale(v / 1e6, 2);

  const describe = (rule) => {
    if (!rule.on) return `--off ${rule.name}`;
    return `--set ${rule.name}=${rule.stops[rule.now]}`;
  };
  const update = () => {
    const changed = rules.filter((rule) => rule.on !== rule.isOn || (rule.on && rule.now !== rule.at));
    const change = estimate();
    put("documents", data.documents + change.documents, change.documents, change.documentsError, whole);
    put("bytes", data.bytes + change.bytes, change.bytes, change.bytesError, mega);
    const rate = data.tokensPerByte;
    if (rate) put("tokens", (data.bytes + change.bytes) * rate, change.bytes * rate, change.bytesError * rate, whole);
    panel.querySelector("[data-out=reset]").hidden = !changed.length;
    panel.querySelector("[data-out=command]").textContent =
      changed.length ? `tamiz whatif ${data.run} ${changed.map(describe).join(" ")}` : "drag a threshold, or switch a rule off";
  };

  rules.forEach((rule, r) => {
    const card = document.getElementById(`rule-${rule.name}`);
    const slider = card.querySelector("input[type=range]");
    const off = card.querySelector("input[type=checkbox]");
    const show = () => {
      card.classList.toggle("changed", rule.on !== rule.isOn || (rule.on && rule.now !== rule.at));
      card.classList.toggle("is-off", !rule.on);
      if (slider) {
        const value = rule.on ? String(rule.stops[rule.now]) : "off";
        card.querySelector("output").textContent = value;
        slider.setAttribute("aria-valuetext", value);
        card.querySelector(".threshold.now").style.left = `${rule.x[rule.now]}%`;
      }
      update();
    };
    if (slider) slider.addEventListener("input", () => {
      rule.now = Number(slider.value); rule.on = true; off.checked = false; show();
    });
    const chart = card.querySelector(".chart");
    const drag = (event) => {
      if (!(event.buttons & 1)) return;
      const box = chart.getBoundingClientRect();
      const at = (100 * (event.clientX - box.left)) / box.width;
      rule.now = rule.x.reduce((best, x, k) => (Math.abs(x - at) < Math.abs(rule.x[best] - at) ? k : best), 0);
      rule.on = true; off.checked = false; slider.value = rule.now;
      show();
    };
    if (chart) for (const kind of ["pointerdown", "pointermove"]) chart.addEventListener(kind, drag);
    off.addEventListener("change", () => { rule.on = !off.checked; show(); });
    rule.reset = () => {
      rule.now = rule.at; rule.on = rule.isOn; off.checked = !rule.isOn;
      if (slider) slider.value = rule.at;
      show();
    };
    card.classList.toggle("is-off", !rule.on);
  });
  panel.querySelector("[data-out=reset]").addEventListener("click", () => rules.forEach((rule) => rule.reset()));
  panel.hidden = false;
  update();
})();
