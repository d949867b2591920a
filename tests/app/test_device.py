import threading
import time

import pytest

from app.device import BusyError, Device


def test_places_are_given_in_order_and_the_rest_know_their_position() -> None:
    device = Device(places=2)
    tickets = [device.join() for _ in range(4)]
    assert [ticket.position for ticket in tickets] == [0, 0, 1, 2]
    tickets[0].leave()
    assert [ticket.position for ticket in tickets[1:]] == [0, 0, 1]


def test_a_place_may_be_left_twice() -> None:
    device = Device(places=1)
    first, second, third = device.join(), device.join(), device.join()
    first.leave()
    first.leave()
    assert (second.position, third.position) == (0, 1)


def test_waiting_ends_when_the_position_changes() -> None:
    device = Device(places=1)
    first, second = device.join(), device.join()
    assert not second.wait(0.01)
    threading.Timer(0.05, first.leave).start()
    assert second.wait(10)


def test_passes_of_two_runs_alternate() -> None:
    device, order = Device(), list[str]()
    asked = {name: threading.Semaphore(0) for name in "ab"}

    def run(name: str, other: str) -> None:
        for number in range(20):
            asked[name].release()
            with device.turn():
                if number < 19:
                    asked[other].acquire(timeout=30)  # hold the device until the other one stands in line
                    _wait_for_line(device, 2)
                order.append(name)

    threads = [threading.Thread(target=run, args=names) for names in ("ab", "ba")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    text = "".join(order[1:-1])
    assert "aa" not in text
    assert "bb" not in text


def _wait_for_line(device: Device, length: int) -> None:
    deadline = time.monotonic() + 30
    while len(device._turns[""]) < length and time.monotonic() < deadline:
        time.sleep(0.001)


def test_a_failed_pass_gives_the_device_back() -> None:
    device = Device()
    with pytest.raises(RuntimeError), device.turn():
        raise RuntimeError
    with device.turn():
        pass


def test_two_devices_have_turns_of_their_own() -> None:
    device = Device()
    with device.turn("cuda:0"), device.turn("cuda:1"):
        pass


def test_a_full_line_turns_the_next_one_away_with_a_sentence() -> None:
    device = Device(places=1, line=2)
    tickets = [device.join() for _ in range(3)]
    assert device.counts() == {"active": 1, "waiting": 2, "places": 1}
    with pytest.raises(BusyError, match=r"^The app is busy: 2 runs wait already. Try again in a moment.$"):
        device.join()
    tickets[1].leave()
    assert device.join().position == 2


def test_without_a_line_there_are_places_only() -> None:
    device = Device(places=2, line=0)
    assert [device.join().position for _ in range(2)] == [0, 0]
    assert device.most_runs == 2
    with pytest.raises(BusyError):
        device.join()
    with pytest.raises(ValueError, match="line must be >= 0, got -1"):
        Device(line=-1)


def test_no_places_is_an_error() -> None:
    with pytest.raises(ValueError, match="places must be >= 1, got 0"):
        Device(places=0)
