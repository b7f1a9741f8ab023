"""What an object store asks of `store`: patience, uploads that are proven, and URLs without secrets in them.

Objects have no rename, and none is needed: an upload (one put, or a multipart upload that is completed) is visible
whole or not at all. What cannot be trusted is the network, so every call is repeated until it is answered.
"""

from __future__ import annotations

import hashlib
import random
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tamiz.errors import ConfigError

T = TypeVar("T")

TRIES = 8  # of one call, besides those that s3fs and botocore make below: two minutes with the pauses
_FIRST_PAUSE_SECONDS = 0.2  # doubled after each try, and shortened at random so that workers do not come back as one
_PAUSE_SECONDS_MAX = 15.0
_PIECE_BYTES = 8 << 20
_PART_BYTES = 50 << 20  # of a multipart upload by s3fs; the store's ETag depends on it
_OPTIONS = {"s3": {"max_concurrency": 4}, "s3a": {"max_concurrency": 4}}  # parts of 50 MB at once: 200 MB a worker

_FINAL = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "TokenRetrievalError", "UnauthorizedSSOTokenError")
_MD5 = re.compile(r"[0-9a-f]{32}(-[0-9]+)?")
_USER = re.compile(r"^[\w+.:-]*://[^/]*@")
_SECRET_QUERY = re.compile(r"[?&][^=&]*(signature|credential|token|secret|password|key|sig)[^=&]*=", re.IGNORECASE)


def is_url(path: str) -> bool:
    """True for `scheme://...`, False for a local path."""
    return "://" in path and not path.startswith("file://")


def check_url(url: str, key: str) -> None:
    """ConfigError, which does not repeat the URL, when there is a user, password or signed query in it.

    URLs go into the plan, the config copy, the manifest and the report; credentials come from the environment, the
    cloud's own files or the machine's role.
    """
    if _USER.search(url) or (is_url(url) and _SECRET_QUERY.search(url)):
        scheme = url.partition("://")[0].rpartition(":")[2]
        raise ConfigError(
            f"{key}: a {scheme}:// URL with credentials in it; take them out, and leave them to the environment "
            "(AWS_PROFILE, AWS_ACCESS_KEY_ID...), the cloud's own files, or the machine's role"
        )


def open_url(url: str, key: str) -> tuple[Any, str]:
    """The fsspec file system of `url`, which remembers no listings, and the path in it.

    Raises ConfigError when the package for its scheme is missing or there are credentials in the URL.
    """
    import fsspec

    check_url(url, key)
    options = _OPTIONS.get(url.partition("://")[0], {})
    try:
        fs, path = fsspec.url_to_fs(url, use_listings_cache=False, **options)
    except ImportError as error:
        scheme = url.partition("://")[0]
        cure = "pip install 'tamiz[s3]'" if scheme in _OPTIONS else str(error)
        raise ConfigError(f"{key}: {scheme}:// needs a package that is not installed; {cure}") from None
    except ValueError as error:
        raise ConfigError(f"{key}: {url!r}: {error}") from None
    return fs, path.rstrip("/")


def insist(call: Callable[[], T]) -> T:
    """The answer of `call`, repeated while the store is busy or out of reach. Raises OSError only."""
    for n_before in range(TRIES):
        try:
            return call()
        except _FINAL:
            raise
        except Exception as error:  # the libraries below raise errors of their own for a lost connection
            cause = _explain(error)
        pause(n_before)
    raise cause


def pause(n_before: int) -> None:
    """Wait before another try, after `n_before` earlier ones."""
    time.sleep(min(_FIRST_PAUSE_SECONDS * 2**n_before, _PAUSE_SECONDS_MAX) * random.uniform(0.5, 1.0))


def _explain(error: Exception) -> OSError:
    """As OSError; PermissionError at once when there is nothing to sign a request with."""
    if type(error).__name__ in _NO_CREDENTIALS:
        raise PermissionError(f"no credentials found ({type(error).__name__})") from error
    if isinstance(error, OSError):
        return error
    return OSError(f"{type(error).__name__}: {error}")


def upload(fs: Any, file: Path, name: str, sha256: str) -> None:
    """Put the local `file` under `name` and prove that it arrived; `sha256` is that of its bytes. Raises OSError.

    The whole upload is repeated when any of it fails: an answer that was lost leaves unclear what happened.
    """
    n_bytes = file.stat().st_size
    for n_before in range(TRIES):
        try:
            fs.put_file(str(file), name)
            if _has_arrived(fs, file, name, n_bytes, sha256):
                return
            cause = OSError("what arrived has another size or checksum")
        except PermissionError:
            raise
        except Exception as error:  # FileNotFoundError too: a completed upload, completed again, is unknown
            cause = _explain(error)
        pause(n_before)
    raise cause


def _has_arrived(fs: Any, file: Path, name: str, n_bytes: int, sha256: str) -> bool:
    """By size, and by the store's MD5 when it gives one; else (encrypted by a key, another kind of store) read back."""
    facts = insist(lambda: fs.info(name))
    if facts["size"] != n_bytes:
        return False
    etag = str(facts.get("ETag", "")).strip('"')
    if _MD5.fullmatch(etag) and etag == _make_etag(file, "-" in etag):
        return True
    return hash_object(fs, name, n_bytes) == sha256


def _make_etag(file: Path, in_parts: bool) -> str:
    """S3's: the MD5 of the content, or of the MD5s of its parts with their number."""
    with file.open("rb") as stream:
        if not in_parts:
            return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
        digests = []
        while part := stream.read(_PART_BYTES):
            digests.append(hashlib.md5(part, usedforsecurity=False).digest())
    return f"{hashlib.md5(b''.join(digests), usedforsecurity=False).hexdigest()}-{len(digests)}"


def hash_object(fs: Any, name: str, n_bytes: int) -> str:
    """The SHA-256 of an object, read in pieces."""
    digest = hashlib.sha256()
    for start in range(0, n_bytes, _PIECE_BYTES):
        stop = min(start + _PIECE_BYTES, n_bytes)
        digest.update(insist(partial(fs.cat_file, name, start=start, end=stop)))
    return digest.hexdigest()
