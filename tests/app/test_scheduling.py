import math
import threading
import time
from typing import Any

import pytest

from app.scheduling import MOST_SESSIONS, USUAL_LIMITS, AdmissionQueue, Limits, LiveRun, Sessions


def test_places_are_given_in_order() -> None:
    queue = AdmissionQueue(places=2)
    tickets = [queue.join() for _ in range(4)]
    assert [ticket.position() for ticket in tickets] == [0, 0, 1, 2]
    for _ in range(2):  # the second time says nothing new
        tickets[0].leave()
        assert [ticket.position() for ticket in tickets[1:]] == [0, 0, 1]


def test_waiting_ends_when_the_position_changes() -> None:
    queue = AdmissionQueue(places=1)
    first, second = queue.join(), queue.join()
    assert second.position(0.01) == 1
    threading.Timer(0.05, first.leave).start()
    assert second.position(10) == 0


def test_passes_of_two_runs_alternate() -> None:
    queue, order = AdmissionQueue(), list[str]()
    asked = {name: threading.Semaphore(0) for name in "ab"}

    def run(name: str, other: str) -> None:
        for number in range(20):
            asked[name].release()
            with queue.lock():
                if number < 19:
                    asked[other].acquire(timeout=30)  # hold the device until the other one stands in line
                    _wait_for_line(queue, 2)
                order.append(name)

    threads = [threading.Thread(target=run, args=names) for names in ("ab", "ba")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(twice in "".join(order[1:-1]) for twice in ("aa", "bb"))


def _wait_for_line(queue: AdmissionQueue, length: int) -> None:
    deadline = time.monotonic() + 30
    while len(queue._locks[""]) < length and time.monotonic() < deadline:
        time.sleep(0.001)


def test_a_failed_pass_gives_the_device_back() -> None:
    queue = AdmissionQueue()
    with pytest.raises(RuntimeError), queue.lock():
        raise RuntimeError
    with queue.lock():
        pass


def test_two_devices_have_turns_of_their_own() -> None:
    queue = AdmissionQueue()
    with queue.lock("cuda:0"), queue.lock("cuda:1"):
        pass


@pytest.mark.parametrize("value", [None, 7, ["a"], {"path": "x"}])
def test_a_prompt_that_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^The prompt must be text, got .*\.$"):
        USUAL_LIMITS.check_prompt(value)


def test_half_a_surrogate_pair_is_replaced() -> None:
    assert USUAL_LIMITS.check_prompt("a\ud800b\ud83d\ude00\x00") == "a\ufffdb😀\x00"


@pytest.mark.parametrize("tokens", [15, 65, 20.5, math.nan, math.inf, "20", None, True, 10**400])
def test_a_length_out_of_range_is_refused(tokens: Any) -> None:
    with pytest.raises(ValueError, match="a whole number between 16 and 64"):
        Limits(new_tokens=64).check_length(tokens)


def test_a_whole_float_is_a_length() -> None:
    assert Limits(new_tokens=64).check_length(20.0) == 20


def begin(sessions: Sessions, queue: AdmissionQueue, session: str) -> LiveRun:
    run = LiveRun(queue.join(), 0.95)
    sessions.begin(session, run)
    return run


def test_stop_ends_all_lanes_and_frees_the_place() -> None:
    sessions, queue = Sessions(), AdmissionQueue(places=1)
    run, waiting = begin(sessions, queue, "me"), queue.join()
    lanes = [run.control(None, follows=True), run.control(None)]
    sessions.live("me").stop()
    assert run.stopped
    assert all(lane.stopped for lane in lanes)
    assert run.control(None, follows=True).stopped
    assert waiting.position() == 0


def test_a_flood_of_sessions_pushes_out_its_own() -> None:
    sessions, run = Sessions(), object()
    sessions.keep("honest", "10.0.0.2", run)
    for number in range(2 * MOST_SESSIONS):
        sessions.keep(f"s{number}", "10.0.0.1", run)
    assert sessions.last("honest") is run
    assert sessions.last("s0") is None
    assert len(sessions._finished) == MOST_SESSIONS


def test_a_session_keeps_its_last_run() -> None:
    sessions = Sessions()
    for number in range(3):
        sessions.keep("me", "10.0.0.1", number)
    assert (sessions.last("me"), sessions.last("you")) == (2, None)


def test_resting_ends_at_once_when_stopped() -> None:
    run = LiveRun(AdmissionQueue().join(), None)
    run.stop()
    run.rest(3600)
