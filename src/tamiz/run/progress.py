"""What the user sees while a stage runs: a bar on a terminal, a line a minute elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from types import TracebackType

from tqdm import tqdm

from tamiz.run.journal import Journal
from tamiz.sources.access import get_pace

_LINE_SECONDS = 60.0
_WAIT_LINE_SECONDS = 10.0  # between two lines while workers wait for the Hub


class Progress:
    """Counts documents, bytes and tokens of one stage towards `total_bytes` of text (an estimate), and shows them.

    `done_bytes`: what an earlier run has already done; it counts towards the total but not towards the rate.
    `journal` is told the same.
    """

    def __init__(self, stage: str, total_bytes: int, done_bytes: int, journal: Journal) -> None:
        self._stage = stage
        self._journal = journal
        self._total, self._start_bytes = max(total_bytes, 1), done_bytes
        self._documents = self._bytes = self._tokens = 0
        self._started = self._shown = time.monotonic()
        self._bar = tqdm(
            total=round(total_bytes / 1e6, 1),
            initial=round(done_bytes / 1e6, 1),
            desc=f"{stage:6}",
            unit="MB",
            disable=not sys.stderr.isatty(),
            bar_format="{desc} {percentage:3.0f}% |{bar}| {n:.0f}/{total:.0f} MB [{elapsed}<{remaining}{postfix}]",
        )

    def __enter__(self) -> Progress:
        self._journal.begin(self._stage, self._total, self._start_bytes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()
        self._journal.end()

    def add(self, documents: int, n_bytes: int, tokens: int) -> None:
        """Count what was done since the last call, and show it when it is time."""
        self._journal.add(documents, n_bytes, tokens)
        self._documents += documents
        self._bytes += n_bytes
        self._tokens += tokens
        wait = get_pace().describe_wait()
        if self._bar.disable:
            if time.monotonic() - self._shown >= (_WAIT_LINE_SECONDS if wait else _LINE_SECONDS):
                self._shown = time.monotonic()
                print(self._describe() + (f", {wait}" if wait else ""), file=sys.stderr, flush=True)
            return
        self._bar.set_postfix_str(", ".join(filter(None, [self._rates(), wait])), refresh=False)
        self._bar.update(n_bytes / 1e6)

    def _seconds(self) -> float:
        return max(time.monotonic() - self._started, 1e-3)

    def _rates(self) -> str:
        rates = f"{self._bytes / 1e6 / self._seconds():.1f} MB/s, {self._documents / self._seconds():,.0f} docs/s"
        return rates + (f", {self._tokens / self._seconds():,.0f} tokens/s" if self._tokens else "")

    def _describe(self) -> str:
        done = self._start_bytes + self._bytes
        rate = self._bytes / self._seconds()
        left = f"{max(self._total - done, 0) / rate / 60:.0f} min left" if rate else "time left unknown"
        return (
            f"{self._stage}: {done / 1e6:,.0f} of {self._total / 1e6:,.0f} MB, {self._documents:,} documents, "
            f"{self._rates()}, {left}"
        )


@contextlib.contextmanager
def tell_waits() -> Iterator[None]:
    """While the block, which shows no progress, waits for the Hub: a line that says so, every ten seconds."""
    is_over = threading.Event()

    def watch() -> None:
        seconds = 0.0
        while not is_over.wait(seconds):
            wait = get_pace().describe_wait()
            seconds = _WAIT_LINE_SECONDS if wait else 0.5
            if wait:
                print(wait, file=sys.stderr, flush=True)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
