import threading
import time

import pytest

from app.scheduling import AdmissionQueue


def test_places_are_given_in_order() -> None:
    queue = AdmissionQueue(places=2)
    tickets = [queue.join() for _ in range(4)]
    assert [ticket.position for ticket in tickets] == [0, 0, 1, 2]
    for _ in range(2):  # the second time says nothing new
        tickets[0].leave()
        assert [ticket.position for ticket in tickets[1:]] == [0, 0, 1]


def test_waiting_ends_when_the_position_changes() -> None:
    queue = AdmissionQueue(places=1)
    first, second = queue.join(), queue.join()
    assert not second.wait(0.01)
    threading.Timer(0.05, first.leave).start()
    assert second.wait(10)


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
    text = "".join(order[1:-1])
    assert "aa" not in text
    assert "bb" not in text


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
