"""How long to insist when the Hub does not answer: one policy for listing and reading, below huggingface_hub.

Its own retries cover some calls and not others, and some calls have no time limit at all. Here every request waits and
tries again after a lost connection, a timeout, a 429 or a 5xx, and after a redirect that has expired, and gives up
within 30 seconds of silence. Only when the Hub itself says how long to wait (429 or 503 with Retry-After) is more time
given, and then all processes of the machine wait (`pace`).
"""

from __future__ import annotations

import functools
import importlib
import random
import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import huggingface_hub

from tamiz.sources.access import get_pace
from tamiz.sources.pace import PAUSE_SECONDS_MAX

_SILENCE_SECONDS = 22.0  # for all tries of one request; on a busy machine giving up takes its time too
# A Hub that has never answered is out of reach rather than out of sorts; one stall is still forgiven.
_SILENCE_SECONDS_BEFORE_ANY_ANSWER = 16.0
_TRY_SECONDS = 8.0  # to connect, and between two pieces of an answer
_FIRST_PAUSE_SECONDS = 0.5  # doubled after each try
_PAUSE_SECONDS_MAX = 4.0
_N_TRIES = 10
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
_EXPIRED = frozenset({400, 401, 403, 404, 410})  # after a redirect to signed storage: the next try gets a new one

_install_lock = threading.Lock()


class UnreachableError(Exception):
    """A request failed for as long as the policy allows; the message is the last cause."""

    def __init__(self, cause: str, status: int | None) -> None:
        super().__init__(cause)
        self.status = status  # of the last answer, None when there was none


def install() -> None:
    """Make huggingface_hub send every request of this process to the Hub with patience; for any thread."""
    with _install_lock:
        _install_once()


@functools.cache
def _install_once() -> None:
    # huggingface_hub 1 builds on httpx, 2 on httpx2; the client it makes tells which.
    http = importlib.import_module(type(huggingface_hub.get_session()).__module__.partition(".")[0])

    class PatientClient(http.Client):  # type: ignore[misc, name-defined]
        def send(self, request: Any, **options: Any) -> Any:
            # `datasets` counts its uses with a request to another host, which may fail as fast as it likes.
            if not str(request.url).startswith(huggingface_hub.constants.ENDPOINT):
                return super().send(request, **options)
            send = super().send

            def send_and_read() -> Any:
                response = send(request, **options)
                response.read()  # also of a stream (only cards are streamed, and small), so that its body is retried
                return response

            return send_patiently(send_and_read, request, http.TransportError)

    huggingface_hub.set_client_factory(lambda: PatientClient(follow_redirects=True, timeout=None))


def send_patiently(send: Callable[[], Any], request: Any, failures: type[Exception]) -> Any:
    """The response to `request`, with any status that another try would not change. Raises UnreachableError."""
    pace = get_pace()
    started = time.monotonic()
    asked = 0.0  # seconds the Hub asked us, or another process, to wait: they are no silence
    for n_before in range(_N_TRIES):
        asked += pace.wait()
        silence = _SILENCE_SECONDS if pace.has_answered() else _SILENCE_SECONDS_BEFORE_ANY_ANSWER
        left = silence - (time.monotonic() - started - asked)
        request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), min(_TRY_SECONDS, left))
        retry_after, status = None, None
        try:
            response = send()
        except failures as error:
            cause = str(error) or type(error).__name__
        else:
            pace.note_answer()
            status = response.status_code
            is_expired = bool(response.history) and status in _EXPIRED
            if status not in _TRANSIENT and not is_expired:
                return response
            response.close()
            cause = f"HTTP {status} {response.reason_phrase}"
            cause += f" from {response.url.host}" if is_expired else ""
            retry_after = read_retry_after(response)
        if retry_after is not None:
            pace.hold(retry_after)
        if n_before + 1 == _N_TRIES:
            break
        if retry_after is None:
            pause = min(_FIRST_PAUSE_SECONDS * 2**n_before, _PAUSE_SECONDS_MAX) * random.uniform(0.5, 1.0)
            if time.monotonic() - started - asked + pause > silence - _TRY_SECONDS / 2:
                break
            pace.pause(pause)
    raise UnreachableError(cause, status)


def read_retry_after(response: Any) -> float | None:
    """Seconds that a 429 or 503 asks to wait, at most five minutes; None when it does not say."""
    if response.status_code not in (429, 503):
        return None
    asked = _read_delay(response.headers)
    if asked is None:  # the Hub's own header: none left (r) of the requests of this window, which ends in t seconds
        window = re.search(r"\br=0;t=(\d+)", response.headers.get("ratelimit", ""))
        asked = float(window[1]) if window else None
    return None if asked is None else min(max(asked, 0.0), PAUSE_SECONDS_MAX)


def _read_delay(headers: Any) -> float | None:
    """Retry-After (RFC 9110): seconds, or a date, which is compared with the server's own."""
    value = headers.get("retry-after", "")
    if re.fullmatch(r"\d+", value):
        return float(value)
    try:
        now = parsedate_to_datetime(headers["date"]) if "date" in headers else datetime.now(UTC)
        return (parsedate_to_datetime(value) - now).total_seconds()
    except (TypeError, ValueError):  # no date, or one of the two without a zone
        return None
