"""Open, list, publish and lock the files of one folder, local or behind an fsspec URL.

No file is ever visible half-written under its final name. In a local folder `publish` writes aside in the same
directory, makes the bytes durable, checks their number and renames. What a killed process leaves behind are aside
files, which `list` does not show and `sweep` removes. In an object store it writes to a local temporary file, uploads
that whole under the final name and checks what arrived. Every OSError comes out as StoreError with the path, the cause
and what to do.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, Self, cast

import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from tamiz.errors import StoreError
from tamiz.lease import Hold, hold_lease
from tamiz.local_files import AGAIN, explain, hold_lock, make_folders, sync_folder, walk_local
from tamiz.objects import insist, is_url, open_url, upload

if TYPE_CHECKING:
    from types import TracebackType

    from _typeshed import ReadableBuffer

_ASIDE = ".aside-"
_BUFFER_BYTES = 1 << 20  # Parquet pages reach us in pieces of a few KB; one system call per MiB
_AHEAD_BYTES = 8 << 20  # read at once from a URL: a request takes as long as moving some MB
_N_AT_ONCE = 128  # small objects fetched together


@dataclass(frozen=True)
class Output:
    """A published file: path relative to its folder, size in bytes, SHA-256 of its bytes in hexadecimal."""

    path: str
    n_bytes: int
    sha256: str


class Folder:
    """A folder of published files; `url` is a local path or any fsspec URL (`s3://...`, `memory://...`).

    Paths are relative, use `/`, and have no component that begins with a dot: those names belong to this module.
    Instances hold no open file and can be pickled.
    """

    def __init__(self, url: str | os.PathLike[str]) -> None:
        path = os.fspath(url)
        self.is_local = not is_url(path)
        if self.is_local:
            self.fs, self.root = LocalFileSystem(), os.path.abspath(path.removeprefix("file://"))
            self.url = self.root
        else:
            self.fs, self.root = open_url(path, "--run-dir")
            self.url = f"{path.partition('://')[0]}://{self.root.lstrip('/')}"

    def __repr__(self) -> str:
        return f"Folder({self.url!r})"

    def locate(self, path: str) -> str:
        """The full name of `path` (a local path, or a path of `fs`), for messages and for libraries that open files."""
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or any(part.startswith(".") for part in parts):
            raise StoreError(f"{path!r} is not a relative path without dot names")
        return f"{self.root}/{'/'.join(parts)}"

    def exists(self, path: str) -> bool:
        """True when `path` is published (a file) or is a folder."""
        with explain(self.locate(path), "look up"):
            return bool(insist(lambda: self.fs.exists(self.locate(path))))

    def list(self, prefix: str = "") -> list[str]:
        """Relative paths of the published files that begin with `prefix` (a string, not a folder), sorted."""
        start = prefix.rpartition("/")[0]
        return sorted(path for path in self._walk(start) if path.startswith(prefix) and not _is_hidden(path))

    def list_sizes(self, prefix: str = "") -> dict[str, int]:
        """Relative path -> size in bytes of the published files that begin with `prefix`, in sorted order."""
        if self.is_local:
            return {path: os.path.getsize(self.locate(path)) for path in self.list(prefix)}
        top = f"{self.root}/{prefix.rpartition('/')[0]}".rstrip("/")
        with explain(top, "list"):
            found = insist(lambda: self.fs.find(top, detail=True))
        sizes = {name[len(self.root) :].lstrip("/"): int(facts["size"]) for name, facts in found.items()}
        return {path: sizes[path] for path in sorted(sizes) if path.startswith(prefix) and not _is_hidden(path)}

    def open(self, path: str) -> BinaryIO:
        """Open for reading; StoreError when it does not exist or cannot be opened.

        A local file is pyarrow's own: its threads may still hold one when the process ends, and a file of Python's
        would then end it with an abort (seen once in some dozens of runs of `tamiz verify`).
        """
        with explain(self.locate(path), "open"):
            if self.is_local:
                return cast(BinaryIO, pa.OSFile(self.locate(path)))
            name = self.locate(path)
            file = insist(lambda: self.fs.open(name, "rb", block_size=_AHEAD_BYTES, cache_type="readahead"))
            return cast(BinaryIO, file)

    def read_bytes(self, path: str) -> bytes:
        """The whole content."""
        with explain(self.locate(path), "read"):
            if self.is_local:
                return Path(self.locate(path)).read_bytes()
            return cast(bytes, insist(lambda: self.fs.cat_file(self.locate(path))))

    def read_many(self, paths: Sequence[str]) -> Iterator[bytes]:
        """The contents of small files, in order; many at once from a URL."""
        if self.is_local:
            yield from map(self.read_bytes, paths)
            return
        for start in range(0, len(paths), _N_AT_ONCE):
            names = [self.locate(path) for path in paths[start : start + _N_AT_ONCE]]
            with explain(f"{names[0]}...", "read"):
                found = insist(partial(self.fs.cat, names))
            yield from found.values() if isinstance(found, dict) else [found]

    def remove(self, path: str) -> None:
        """Remove a published file; one that does not exist is no error."""
        with explain(self.locate(path), "remove"), contextlib.suppress(FileNotFoundError):
            insist(lambda: self.fs.rm_file(self.locate(path)))

    def publish(self, path: str) -> Aside:
        """A context manager that gives a writable binary file; after a clean exit `path` is visible and `.output` set.

        On an exception the aside file is removed and whatever was under `path` before is untouched.
        """
        return Aside(self, path)

    def publish_bytes(self, path: str, data: bytes) -> Output:
        """Publish `data` under `path`."""
        with self.publish(path) as file:
            file.write(data)
        return file.output

    def check(self, output: Output) -> None:
        """Raise StoreError unless the file has the size and the SHA-256 of `output`; reads the whole file."""
        name = self.locate(output.path)
        with explain(name, "check"):
            n_bytes = insist(lambda: self.fs.size(name))
            if n_bytes != output.n_bytes:
                raise StoreError(f"{name}: {n_bytes} bytes, its record says {output.n_bytes}; remove it, {AGAIN}")
            with self.open(output.path) as file:
                seen = hashlib.sha256()
                while piece := file.read(_BUFFER_BYTES):
                    seen.update(piece)
        if seen.hexdigest() != output.sha256:
            raise StoreError(
                f"{name}: SHA-256 is {seen.hexdigest()}, its record says {output.sha256}; remove it, {AGAIN}"
            )

    def sweep(self) -> int:
        """Remove the aside files that killed processes left and tell how many; call it with the lock held.

        Without the lock it would pull the files of a live writer from under it. An object store has none.
        """
        if not self.is_local:
            return 0
        left = [path for path in self._walk("") if PurePosixPath(path).name.startswith(_ASIDE)]
        for path in left:
            name = f"{self.root}/{path}"
            with explain(name, "remove"), contextlib.suppress(FileNotFoundError):
                self.fs.rm_file(name)
        return len(left)

    def lock(self, name: str) -> AbstractContextManager[Hold]:
        """Hold the exclusive lock `name` of this folder; StoreError with the other's host and pid when it is taken.

        The kernel frees it when the holder dies, however it dies; the file itself stays. A folder behind a URL has a
        lease, which runs out when it is not renewed: `Hold.check` tells a holder that it lost it.
        """
        return hold_lock(self.root, name) if self.is_local else hold_lease(self.fs, self.root, name)

    def _walk(self, start: str) -> Iterator[str]:
        top = f"{self.root}/{start}" if start else self.root
        with explain(top, "list"):
            for name in walk_local(top) if self.is_local else insist(lambda: self.fs.find(top)):
                yield name[len(self.root) :].lstrip("/")


class Aside(io.RawIOBase):
    """The writable file of `Folder.publish`; counts and hashes what passes through it.

    Closing it (some writers do) only ends writing; leaving the `with` block publishes.
    """

    output: Output

    def __init__(self, folder: Folder, path: str) -> None:
        super().__init__()
        self._folder = folder
        self._name = folder.locate(path)
        parent, _, last = self._name.rpartition("/")
        self._parent = parent
        self._aside = f"{parent}/{_ASIDE}{os.urandom(6).hex()}-{last}"
        self._path = path
        self._n_bytes = 0
        self._digest = hashlib.sha256()

    def __enter__(self) -> Self:
        with explain(self._name, "create"):
            if self._folder.is_local:
                make_folders(self._parent)
                self._file: BinaryIO = open(self._aside, "xb", buffering=_BUFFER_BYTES)
            else:  # without a name, so that a killed process leaves nothing
                self._file = cast(BinaryIO, tempfile.TemporaryFile("wb", buffering=_BUFFER_BYTES))
                self._aside = f"/proc/self/fd/{self._file.fileno()}"
        return self

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._n_bytes

    def write(self, data: ReadableBuffer, /) -> int:
        """Append `data`; StoreError when the disk refuses."""
        view = memoryview(data)
        with explain(self._name, "write"):
            self._file.write(view)
        self._digest.update(view)
        self._n_bytes += view.nbytes
        return view.nbytes

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if kind is not None:
            self._discard()
            return
        try:
            self._commit()
        except BaseException:
            self._discard()
            raise

    def _commit(self) -> None:
        with explain(self._name, "publish"):
            self._file.flush()
            if self._folder.is_local:
                os.fsync(self._file.fileno())
            n_bytes = os.fstat(self._file.fileno()).st_size
            if n_bytes != self._n_bytes:
                raise StoreError(f"{self._name}: wrote {self._n_bytes} bytes, disk has {n_bytes}; check it, {AGAIN}")
            if self._folder.is_local:
                self._file.close()
                os.replace(self._aside, self._name)
                sync_folder(self._parent)
            else:
                upload(self._folder.fs, Path(self._aside), self._name, self._digest.hexdigest())
                self._file.close()
        self.output = Output(self._path, self._n_bytes, self._digest.hexdigest())

    def _discard(self) -> None:
        # The error on its way out is the one to report: a full disk also fails the flush inside close().
        with contextlib.suppress(OSError):
            self._file.close()
        if self._folder.is_local:
            with contextlib.suppress(OSError):
                os.unlink(self._aside)


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in PurePosixPath(path).parts)
