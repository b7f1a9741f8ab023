"""A proxy before an S3 server that fails a share of the requests the way stores and networks do.

python -m tests.cluster.fault_proxy PORT UPSTREAM_PORT SHARE SEED LOG

Kinds: `500`, `503` (SlowDown), `reset` before the request reaches the store, `lost` (the store has done it, the answer
is cut off), `slow` (a second), `cut` (the connection breaks in mid-upload; only requests with a body of some size), and
`torn` (half of an answer's body). One line per fault goes to LOG.
"""

from __future__ import annotations

import http.client
import random
import socket
import struct
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

KINDS = ("500", "503", "reset", "lost", "slow", "cut", "torn")
BODY_BYTES = 1024  # a smaller upload is not cut
ERRORS = {"500": (500, "InternalError", "We encountered an internal error."), "503": (503, "SlowDown", "Slow down.")}


class Proxy(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, upstream: int, share: float, seed: int, log: Path) -> None:
        super().__init__(("127.0.0.1", port), Relay)
        self.upstream, self.share, self.log = upstream, share, log
        self.random, self.lock = random.Random(seed), threading.Lock()
        self.counts: Counter[str] = Counter()

    def choose_fault(self, n_bytes: int) -> str | None:
        with self.lock:
            if self.random.random() >= self.share:
                return None
            possible = [kind for kind in KINDS if kind != "cut" or n_bytes >= BODY_BYTES]
            self.random.shuffle(possible)
            kind = min(possible, key=lambda kind: self.counts[kind])  # few requests can be cut: none must be wasted
            self.counts[kind] += 1
            with self.log.open("a", encoding="utf-8") as file:
                file.write(f"{kind}\n")
            return kind

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # connections that break are what this is for


class Relay(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def relay(self) -> None:
        chunked = self.headers.get("Transfer-Encoding", "").lower() == "chunked"
        n_bytes = int(self.headers.get("Content-Length", 0))
        fault = self.server.choose_fault(n_bytes)
        if self.headers.get("Expect", "").lower() == "100-continue" and fault not in ERRORS:
            pass  # handle_expect_100 has answered
        if fault == "cut":
            self.rfile.read(n_bytes // 2)
            return self.break_off()
        body = self.read_chunks() if chunked else self.rfile.read(n_bytes)
        if fault == "reset":
            return self.break_off()
        if fault in ERRORS:
            return self.refuse(*ERRORS[fault])
        if fault == "slow":
            time.sleep(1.0)
        status, headers, data = self.ask_upstream(body)
        if fault == "lost":
            return self.break_off()
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        length = next((value for name, value in headers if name.lower() == "content-length"), str(len(data)))
        self.send_header("Content-Length", length if self.command == "HEAD" else str(len(data)))
        self.end_headers()
        if fault == "torn":
            self.wfile.write(data[: len(data) // 2])
            return self.break_off()
        self.wfile.write(data)
        return None

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = relay  # noqa: N815

    def ask_upstream(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.upstream, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("expect", "connection")}
        if headers.pop("Transfer-Encoding", None):
            headers["Content-Length"] = str(len(body))
        connection.request(self.command, self.path, body=body or None, headers=headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, answer.getheaders(), data

    def read_chunks(self) -> bytes:
        """A chunked body with its framing removed."""
        body = b""
        while n := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(n)
            self.rfile.readline()
        while self.rfile.readline() not in (b"\r\n", b""):
            pass
        return body

    def refuse(self, status: int, code: str, message: str) -> None:
        data = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def break_off(self) -> None:
        """Reset the connection instead of closing it."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


if __name__ == "__main__":
    Proxy(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5])).serve_forever()
