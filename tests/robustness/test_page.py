"""docs/robustness.md: every case and the outcome that its test asserts.

UPDATE_DOCS=1 pytest tests/robustness/test_page.py
"""

from __future__ import annotations

import os

from tests.robustness.cases import PROCESSED, RECORDS, STREAMS, TABLES
from tests.robustness.pages import ARCHIVES, PAGES
from tests.run.test_build import ROOT

PAGE = ROOT / "docs" / "robustness.md"

HEAD = """# Hostile input, and what becomes of it

Made by `tests/robustness/test_page.py` from the cases that the tests beside it run; edit there.

Every record ends in one of two ways. *Processed*: the rules decide about it like about any document. *Quarantined*:
it has no text, and its row in `sift/*/*.verdicts.parquet` has the reason, and in `origin` the file and the position.
Each case is run alone and in the middle of good documents by a real worker, and each time the good ones come out
unchanged, the books balance, and the worker stays under 2 GB.

If more than `quarantine.max_share` of a source's documents or bytes is quarantined (0.01; 0.03 for the bundled
sample, which has broken records on purpose), the run stops with exit code 1, as soon as that is certain. What was
sifted stays valid: with a higher share the same command goes on.
"""

LIMITS = """## Limits

| limit | where | reason |
|---|---|---|
| a document of more than 16 MB | `extract/text.py` | `document_too_large` |
| a JSON line of more than 32 MB | `sources/jsonl.py` | `record_too_long` |

They are constants, so that the same input has the same outcome on every machine. Measuring takes up to 30 bytes of
memory per byte of text (text of words of one letter): 0.5 GB for the largest document, on top of 0.3 GB for libraries
and kernels.

Not bounded: a Zstandard frame that declares a window of up to 2 GB (`zstd --long=31`) gets it, and one value of a
Parquet column is held whole, some three times over, before its size is known. pyarrow 26 ends its process at one in a
thousand of the bits of a Parquet footer when it is flipped: footers are read in a process of their own when the run is
planned, and such a file is quarantined like any damaged one.
"""

DAMAGE = """## Damaged files

A fault in a file's container loses only what is unreadable. `report/summary.json` lists each stretch under `damage`,
with its bytes in the file and the number of documents; the first ten are printed at the end of a build.

- *Packed JSON lines.* What was unpacked before the damage is read; reading goes on with the next gzip member or
  Zstandard frame that can be opened. The damaged stretch, with the line it stands in, is one quarantined record. A
  position is an offset in the unpacked stream, in which a damaged stretch counts as one byte. Both formats have their
  checksum at the end of a frame: what a changed byte altered before unpacking failed has been read as it came.
- *Parquet.* The rest of a row group behind the damage is lost, each of its rows a quarantined record. Changed bytes
  that a codec does not notice are found only where the writer made page checksums.
- *A Parquet file whose footer cannot be read*, or that lacks the text column or one of `where`, is quarantined whole
  when the run is planned, as long as its source has others: one record, or as many as it has rows. If it is all there
  is, the run is refused.
- *WARC.* The record whose packing, header or length is broken is one quarantined record; reading goes on with the next
  record that can be found.
- *A disk or network that fails* is no damage: the run stops, and goes on when it is asked to.
"""


WEB = """## Pages

From WARC, each extracted in a child process with limits on processor time (120 s), memory (4 GB), size (8 MB) and open
elements (2,000; trafilatura's parser follows 256). The child is replaced when it dies, and the page is quarantined with
the offset of its record.
"""


def name(outcome: str | None) -> str:
    return "" if outcome is None else "processed" if outcome == PROCESSED else f"`{outcome}`"


def write_page() -> str:
    lines = [HEAD, LIMITS, "## Records", "", "| record | in Parquet | in JSON lines |", "|---|---|---|"]
    lines += [f"| {record.name} | {name(record.parquet)} | {name(record.jsonl)} |" for record in RECORDS]
    lines += ["", DAMAGE, "| file | reason | of its good documents, at least |", "|---|---|---|"]
    for case in (*STREAMS, *TABLES, *ARCHIVES):
        survives = "all" if case.survives == 1 else "none" if case.survives == 0 else f"{case.survives:.0%}"
        lines.append(f"| {case.name} | {name(case.reason)} | {survives} |")
    lines += ["", WEB, "| page | with trafilatura | with resiliparse |", "|---|---|---|"]
    lines += [f"| {page.name} | {name(page.trafilatura)} | {name(page.resiliparse)} |" for page in PAGES]
    return "\n".join(lines) + "\n"


def test_the_page_is_current() -> None:
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(write_page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == write_page(), "run: UPDATE_DOCS=1 pytest tests/robustness/test_page.py"
