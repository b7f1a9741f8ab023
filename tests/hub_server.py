"""A Hugging Face Hub on the loopback interface for tests, and a client process that talks to it.

The server speaks what the real, unpatched `datasets` and `huggingface_hub` ask for when a dataset is listed and read:
dataset info, trees, paths-info and resolve with ranges. It counts what it serves and fails on demand. The client is a
process of its own because those libraries read HF_ENDPOINT when they are imported.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self
from urllib.parse import parse_qs, unquote, urlsplit


class Served(NamedTuple):
    """One answered request: method, path, status, bytes of body sent, and when (time.monotonic)."""

    method: str
    path: str
    status: int
    n_bytes: int
    at: float


@dataclass
class Fault:
    """What happens to the next `times` requests whose "METHOD path" matches `where`.

    kind     status    answer `status` with `headers`
             reset     half of the body, then a TCP reset
             truncate  half of the body, then an orderly end
             short     a well-formed answer with half of the bytes asked for
             stall     headers and half of the body, then silence until the server closes
    """

    kind: str
    where: str = ""
    times: int = 1
    status: int = 503
    headers: dict[str, str] = field(default_factory=dict)


class HubServer:
    """Datasets by name; each commit is a folder whose files must not change. Use as a context manager.

    A second server plays the storage that the real Hub redirects to: its addresses are signed, for one use each when
    `signatures_expire`, and it refuses requests that bring an Authorization along, as signed storage does.
    """

    def __init__(self) -> None:
        self.commits: dict[str, dict[str, Path]] = {}
        self.main: dict[str, str] = {}
        self.gated: set[str] = set()
        self.served: list[Served] = []
        self.faults: list[Fault] = []
        self.is_redirecting = False  # send resolve requests to the storage, as the real Hub does
        self.signatures_expire = 0  # so many of the next addresses of the storage have expired when they are used
        self.seconds = 0.0  # that every answer with a file's bytes takes
        self.after: list[tuple[str, Callable[[], None]]] = []  # once, when a request that matches was answered
        self.closing = threading.Event()
        self.lock = threading.Lock()
        self._servers = [_Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self})) for _ in range(2)]
        self.endpoint, self.storage = (f"http://127.0.0.1:{server.server_port}" for server in self._servers)

    def __enter__(self) -> Self:
        serve = [threading.Thread(target=server.serve_forever, args=(0.05,)) for server in self._servers]
        for thread in serve:
            thread.start()
        self._threads = serve
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        for server, thread in zip(self._servers, self._threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join()

    def commit(self, dataset: str, folder: Path) -> str:
        """Publish `folder` as the newest commit of the main branch; returns its name."""
        names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        content = "".join(f"{name}\0{hashlib.sha256((folder / name).read_bytes()).hexdigest()}\n" for name in names)
        sha = hashlib.sha1((dataset + content).encode()).hexdigest()
        self.commits.setdefault(dataset, {})[sha] = folder
        self.main[dataset] = sha
        return sha

    def forget(self) -> None:
        """Start counting anew, without faults."""
        self.served.clear()
        self.faults.clear()
        self.after.clear()
        self.is_redirecting = False
        self.signatures_expire = 0
        self.seconds = 0.0

    def count(self, where: str = "") -> int:
        """Requests answered whose "METHOD path" matches."""
        return sum(1 for one in self.served if re.search(where, f"{one.method} {one.path}"))

    def count_bytes(self, where: str = "") -> int:
        """Bytes of body sent in answer to them."""
        return sum(one.n_bytes for one in self.served if re.search(where, f"{one.method} {one.path}"))

    def take_fault(self, method: str, path: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.times > 0 and re.search(fault.where, f"{method} {path}"):
                    fault.times -= 1
                    return fault
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients that are killed in the middle are part of the tests


class _Handler(BaseHTTPRequestHandler):
    hub: ClassVar[HubServer]
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self._sent = b""
        path = unquote(urlsplit(self.path).path)
        self._body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._fault = self.hub.take_fault(self.command, path)
        if self._fault is not None and self._fault.kind == "status":
            self._send(self._fault.status, b"", self._fault.headers)
            return
        routes: list[tuple[str, Callable[..., None]]] = [
            (r"/api/datasets/([^/]+/[^/]+)(?:/revision/([^/]+))?", self._send_info),
            (r"/api/datasets/([^/]+/[^/]+)/tree/([^/]+)(?:/(.*))?", self._send_tree),
            (r"/api/datasets/([^/]+/[^/]+)/paths-info/([^/]+)", self._send_paths),
            (r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self._send_file),
            (r"/signed/([^/]+/[^/]+)/([^/]+)/(.+)", self._send_signed),
        ]
        for pattern, send in routes:
            match = re.fullmatch(pattern, path)
            if match is not None:
                dataset, revision, *rest = match.groups()
                folder = self._find_folder(dataset, revision)
                if folder is not None:
                    send(dataset, folder, *rest)
                return
        self._send(404, b"", {})

    def _find_folder(self, dataset: str, revision: str | None) -> Path | None:
        if dataset in self.hub.gated:
            self._send(401, b"", {"X-Error-Code": "GatedRepo", "X-Error-Message": "gated"})
            return None
        if dataset not in self.hub.commits:  # the real Hub does not tell strangers what exists
            self._send(401, b"", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
            return None
        self._sha = self.hub.main[dataset] if revision in (None, "main") else str(revision)
        folder = self.hub.commits[dataset].get(self._sha)
        if folder is None:
            self._send(404, b"", {"X-Error-Code": "RevisionNotFound", "X-Error-Message": f"Invalid rev id: {revision}"})
        return folder

    def _send_info(self, dataset: str, folder: Path) -> None:
        names = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]
        siblings = [{"rfilename": name} for name in names]
        info = {"_id": "0" * 24, "id": dataset, "sha": self._sha, "siblings": siblings, "tags": [], "private": False}
        self._send_json({**info, "downloads": 0, "likes": 0, "gated": False, "disabled": False})

    def _send_tree(self, dataset: str, folder: Path, below: str | None) -> None:
        top = folder / (below or "")
        if not top.is_dir():
            self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Error-Message": f"{below} does not exist"})
            return
        is_recursive = parse_qs(urlsplit(self.path).query).get("recursive", ["false"])[0].lower() in ("true", "1")
        self._send_json([_describe(folder, path) for path in sorted(top.rglob("*") if is_recursive else top.iterdir())])

    def _send_paths(self, dataset: str, folder: Path) -> None:
        if self.headers.get("Content-Type", "").startswith("application/json"):
            paths = json.loads(self._body)["paths"]
        else:
            paths = parse_qs(self._body.decode())["paths"]
        self._send_json([_describe(folder, folder / path) for path in paths if (folder / path).exists()])

    def _send_file(self, dataset: str, folder: Path, name: str) -> None:
        if not (folder / name).is_file():
            self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"})
        elif self.hub.is_redirecting:
            size, etag = (folder / name).stat().st_size, hashlib.sha1(name.encode()).hexdigest()
            with self.hub.lock:
                until = "past" if self.command == "GET" and self.hub.signatures_expire else "future"
                self.hub.signatures_expire -= until == "past"
            linked = {"X-Linked-Size": str(size), "X-Linked-ETag": f'"{etag}"', "X-Repo-Commit": self._sha}
            self._send(
                302,
                b"",
                {**linked, "Location": f"{self.hub.storage}/signed/{dataset}/{self._sha}/{name}?until={until}"},
            )
        else:
            self._send_content(dataset, folder, name)

    def _send_signed(self, dataset: str, folder: Path, name: str) -> None:
        if self.headers.get("Authorization"):
            self._send(400, b"Only one auth mechanism allowed", {})
        elif parse_qs(urlsplit(self.path).query)["until"] == ["past"]:
            self._send(403, b"Request has expired", {})
        else:
            self._send_content(dataset, folder, name)

    def _send_content(self, dataset: str, folder: Path, name: str) -> None:
        self.hub.closing.wait(self.hub.seconds)
        data = (folder / name).read_bytes()
        headers = {"X-Repo-Commit": self._sha, "ETag": f'"{hashlib.sha1(data).hexdigest()}"', "Accept-Ranges": "bytes"}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted is None:
            self._send(200, data, headers)
            return
        start, last = int(wanted[1]), min(int(wanted[2] or len(data) - 1), len(data) - 1)
        headers["Content-Range"] = f"bytes {start}-{last}/{len(data)}"
        self._send(206, data[start : last + 1], headers)

    def _send_json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        kind = self._fault.kind if self._fault is not None else ""
        if kind == "short":
            data = data[: len(data) // 2]
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        sent = b"" if self.command == "HEAD" else data
        if kind in ("reset", "truncate", "stall"):
            sent = sent[: len(sent) // 2]
            self.close_connection = True
        self.wfile.write(sent)
        self.wfile.flush()
        path = unquote(urlsplit(self.path).path)
        with self.hub.lock:
            self.hub.served.append(Served(self.command, path, status, len(sent), time.monotonic()))
            due = [one for one in self.hub.after if re.search(one[0], f"{self.command} {path}")]
            self.hub.after = [one for one in self.hub.after if one not in due]
        for _, act in due:
            act()
        if kind == "stall":
            self.hub.closing.wait(60)
        elif kind == "reset":  # a close that lingers for zero seconds sends RST
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()


def _describe(folder: Path, path: Path) -> dict[str, Any]:
    name = path.relative_to(folder).as_posix()
    oid = hashlib.sha1(name.encode()).hexdigest()
    if path.is_dir():
        return {"type": "directory", "oid": oid, "size": 0, "path": name}
    return {"type": "file", "oid": oid, "size": path.stat().st_size, "path": name}


_CLIENT = """
import json, sys, traceback
answers, sys.stdout = sys.stdout, sys.stderr
for line in sys.stdin:
    names = dict(json.loads(line)["names"])
    try:
        exec(json.loads(line)["code"], names)
        answer = {"result": names.get("result")}
    except BaseException as error:
        answer = {"error": type(error).__name__, "message": str(error), "trace": traceback.format_exc()}
    print(json.dumps(answer), file=answers, flush=True)
"""


class ClientError(Exception):
    """What the client process raised: `kind` is the name of the exception's class."""

    def __init__(self, kind: str, message: str, trace: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind, self.message, self.trace = kind, message, trace


class HubClient:
    """A Python process whose HF_ENDPOINT is `endpoint`, with empty caches. Use as a context manager."""

    def __init__(self, endpoint: str) -> None:
        self._home = tempfile.TemporaryDirectory()
        settings = {"HF_ENDPOINT": endpoint, "HF_HOME": self._home.name, "HF_HUB_DISABLE_XET": "1"}
        quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_VERBOSITY": "error"}
        inside = {"HF_UPDATE_DOWNLOAD_COUNTS": "0"}  # else `datasets` asks a host outside
        paths = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CLIENT],
            env={**os.environ, **settings, **quiet, **inside, **paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()
        self._home.cleanup()

    def run(self, code: str, **names: Any) -> Any:
        """Execute `code` there with these global names; returns what it leaves in `result` (JSON values)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"code": code, "names": names}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise ClientError(answer["error"], answer["message"], answer["trace"])
        return answer["result"]
