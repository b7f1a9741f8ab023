"""The policy for a Hub that does not answer, on a clock that a test can wind."""

from __future__ import annotations

from typing import Any

import pytest

from tamiz.sources import access, patience
from tamiz.sources.pace import Pace


class Request:
    def __init__(self) -> None:
        self.extensions: dict[str, Any] = {}


class Response:
    def __init__(self, status: int, headers: dict[str, str] | None = None) -> None:
        self.status_code = status
        self.headers = headers or {}
        self.reason_phrase = "So"
        self.history: list[Response] = []

    def close(self) -> None:
        pass


class LostError(Exception):
    pass


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each pause; the clock moves by them, and by what a test appends."""
    moved: list[float] = []
    monkeypatch.setattr("tamiz.sources.patience.time.monotonic", lambda: sum(moved))
    monkeypatch.setattr("tamiz.sources.patience.time.sleep", moved.append)
    monkeypatch.setattr("tamiz.sources.access._pace", Pace(None))
    return moved


def send_all(answers: list[Response | Exception]) -> tuple[Response, int]:
    """What comes of these answers in turn (the last one again and again), and the number of tries."""
    n = 0

    def send() -> Response:
        nonlocal n
        answer = answers[min(n, len(answers) - 1)]
        n += 1
        if isinstance(answer, Exception):
            raise answer
        return answer

    return patience.send_patiently(send, Request(), LostError), n


@pytest.mark.parametrize("failure", [LostError("reset"), Response(500), Response(503), Response(429), Response(408)])
def test_what_passes_is_tried_again(clock: list[float], failure: Response | Exception) -> None:
    response, n = send_all([failure, failure, Response(206)])
    assert (response.status_code, n) == (206, 3)
    assert 0.25 <= clock[0] <= 0.5 <= clock[1] <= 1.0


@pytest.mark.parametrize("status", [200, 302, 401, 403, 404, 416])
def test_what_another_try_would_not_change_is_returned(clock: list[float], status: int) -> None:
    assert send_all([Response(status)])[1] == 1
    assert clock == []


DATED = {"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT", "date": "Fri, 31 Dec 1999 23:58:29 GMT"}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"retry-after": "7"}, 7), ({"retry-after": "9999"}, 300), ({"ratelimit": '"api";r=0;t=55'}, 55), (DATED, 90)],
)
def test_the_hub_is_given_the_time_it_asks_for(clock: list[float], headers: dict[str, str], seconds: int) -> None:
    response, n = send_all([*[Response(429, headers)] * 9, Response(200)])
    assert (response.status_code, n) == (200, 10)
    assert all(seconds <= pause <= seconds + 0.5 for pause in clock)
    assert len(clock) == 9


def test_a_hub_that_asks_for_time_again_and_again_is_given_up(clock: list[float]) -> None:
    with pytest.raises(patience.UnreachableError, match="HTTP 429"):
        send_all([Response(429, {"retry-after": "300"})])
    assert len(clock) == 9


@pytest.mark.parametrize("headers", [{"ratelimit": '"api";r=12;t=55'}, {"retry-after": "soon"}])
def test_other_headers_ask_for_nothing(clock: list[float], headers: dict[str, str]) -> None:
    assert patience.read_retry_after(Response(429, headers)) is None
    assert patience.read_retry_after(Response(500, {"retry-after": "7"})) is None


@pytest.mark.parametrize("has_answered", [True, False])
@pytest.mark.parametrize("seconds", [0.0, 3.0, 10.0], ids=["refused", "slow", "stalled"])
def test_silence_ends_within_thirty_seconds(clock: list[float], seconds: float, has_answered: bool) -> None:
    if has_answered:
        clock.append(1.0)
        access.get_pace().note_answer()
    request = Request()
    n = 0

    def send() -> None:
        nonlocal n
        n += 1
        limits = request.extensions["timeout"]
        assert set(limits) == {"connect", "read", "write", "pool"}
        assert 0 < limits["read"] <= 10
        clock.append(min(seconds, limits["read"]))
        raise LostError

    with pytest.raises(patience.UnreachableError, match="LostError"):
        patience.send_patiently(send, request, LostError)
    assert sum(clock) <= (26 if has_answered else 17)
    assert n >= 2 + has_answered
