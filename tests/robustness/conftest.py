from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamiz.config_file import load_config
from tamiz.run.isolation import Isolation
from tamiz.run.local import LocalEngine
from tamiz.run.measuring import SiftSettings
from tamiz.run.settings import make_sift_settings
from tamiz.run.warming import warm_kernels
from tamiz.sources import ParquetSource
from tamiz.sources.access import HubAccess
from tests.robustness.cases import Good
from tests.robustness.worker import sift_files
from tests.run.test_build import ROOT


@pytest.fixture(scope="session")
def settings() -> SiftSettings:
    """All of the FineWeb recipe, so that every kernel meets every input."""
    made = make_sift_settings(load_config(ROOT / "configs" / "fineweb-raw.yaml"), Path.home() / ".cache" / "tamiz")
    warm_kernels(made)
    return made


@pytest.fixture(scope="session")
def engine() -> Iterator[LocalEngine]:
    engine = LocalEngine(1)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def isolation() -> Iterator[Isolation]:
    """Reads footers, as a run has them read."""
    isolation = Isolation(HubAccess())
    yield isolation
    isolation.close()


@pytest.fixture(scope="session")
def good(engine: LocalEngine, settings: SiftSettings, tmp_path_factory: pytest.TempPathFactory) -> Good:
    """Documents of the bundled sample as the rules leave them, so that sifted again they come out as they are."""
    folder = tmp_path_factory.mktemp("good")
    sample = ParquetSource("s", (str(ROOT / "src" / "tamiz" / "sample"),))
    texts = sorted(set(sift_files(engine, settings, folder / "first", sample, 1 << 28).kept.values()))
    pq.write_table(pa.table({"text": texts}), folder / "a.parquet")
    again = sift_files(engine, settings, folder / "again", ParquetSource("s", (f"{folder}/a.parquet",)), 1 << 28)
    good = Good(sorted(set(again.kept.values()) & set(texts)))
    assert len(good.texts) >= 100
    return good
