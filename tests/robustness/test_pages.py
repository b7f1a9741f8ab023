"""Hostile pages and damaged WARC files, alone and among good pages, through a real worker and its guard."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from tamiz.run.local import LocalEngine
from tamiz.run.measuring import SiftSettings
from tamiz.sources import WarcSource
from tests.robustness.cases import MB, PROCESSED, Good
from tests.robustness.pages import ARCHIVES, PAGES, Archive, Page, make_good, make_response
from tests.robustness.worker import MEMORY_MAX, Sifted, sift_files

ENGINES = ["trafilatura", "resiliparse"]
N_GOOD = 5


def param(case: Page | Archive) -> object:
    return pytest.param(case, id=case.name, marks=[pytest.mark.slow] * case.is_slow)


def sift(engine: LocalEngine, settings: SiftSettings, folder: Path, extractor: str) -> Sifted:
    spec = WarcSource("s", (f"{folder}/*.warc*",))
    sifted = sift_files(engine, replace(settings, engine=extractor), folder / "run", spec, 1 << 28)
    assert sifted.peak < MEMORY_MAX, f"{sifted.peak / MB:.0f} MB"
    return sifted


def list_texts(sifted: Sifted, name: str) -> dict[str, tuple[str, str | None]]:
    """doc's address -> outcome and text, of the file called `name`."""
    rows = [row for row in sifted.verdicts if row["origin"].startswith(f"{name}#")]
    return {row["origin"]: (row["outcome"], sifted.kept.get(row["origin"])) for row in rows}


@pytest.fixture(scope="module", params=ENGINES)
def extractor(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def expected(
    engine: LocalEngine, settings: SiftSettings, good: Good, tmp_path_factory: pytest.TempPathFactory, extractor: str
) -> list[tuple[str, str | None]]:
    """What becomes of the good pages by themselves."""
    folder = tmp_path_factory.mktemp("good")
    (folder / "a.warc.gz").write_bytes(b"".join(gzip.compress(make_good(good, i)) for i in range(N_GOOD)))
    ends = list(list_texts(sift(engine, settings, folder, extractor), "a.warc.gz").values())
    assert [outcome for outcome, _ in ends].count("kept") >= 2
    return ends


@pytest.mark.parametrize("place", ["alone", "mixed"])
@pytest.mark.parametrize("page", [param(page) for page in PAGES])
def test_a_page(
    engine: LocalEngine,
    settings: SiftSettings,
    good: Good,
    tmp_path: Path,
    page: Page,
    place: str,
    extractor: str,
    expected: list[tuple[str, str | None]],
) -> None:
    around = [make_good(good, i) for i in range(N_GOOD)] if place == "mixed" else []
    records = [*around[:2], make_response(7, page.make(), page.fields), *around[2:]]
    (tmp_path / "a.warc.gz").write_bytes(b"".join(map(gzip.compress, records)))
    sifted = sift(engine, settings, tmp_path, extractor)
    ends = list(list_texts(sifted, "a.warc.gz").values())
    reason = sifted.verdicts[len(around[:2])]["quarantine"]
    outcome = page.trafilatura if extractor == "trafilatura" else page.resiliparse
    assert reason == (None if outcome == PROCESSED else outcome)
    del ends[len(around[:2])]
    assert ends == (expected if around else [])


@pytest.mark.parametrize("archive", [param(archive) for archive in ARCHIVES])
def test_a_warc_file_among_good_ones(
    engine: LocalEngine,
    settings: SiftSettings,
    good: Good,
    tmp_path: Path,
    archive: Archive,
    extractor: str,
    expected: list[tuple[str, str | None]],
) -> None:
    records = [make_good(good, i) for i in range(N_GOOD)]
    (tmp_path / f"b{archive.suffix}").write_bytes(archive.make(records))
    for name in ("a.warc.gz", "c.warc.gz"):
        (tmp_path / name).write_bytes(b"".join(map(gzip.compress, records)))
    sifted = sift(engine, settings, tmp_path, extractor)
    for name in ("a.warc.gz", "c.warc.gz"):
        assert list(list_texts(sifted, name).values()) == expected
    own = list(list_texts(sifted, f"b{archive.suffix}").values())
    reasons = {row["quarantine"] for row in sifted.verdicts if row["origin"].startswith("b.")} - {None}
    assert reasons == {archive.reason}
    assert len([end for end in own if end in expected]) >= archive.survives * N_GOOD
