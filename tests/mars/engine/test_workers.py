"""One thread makes the passes of all threads on a CPU, and a thread that has computed can let its workers go."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from mars.engine.workers import compute, computed, libgomp, release

CPU = torch.device("cpu")


def elsewhere(function: Callable[[], object]) -> object:
    """The result of a function in a new thread."""
    with ThreadPoolExecutor(1) as one:
        return one.submit(function).result()


def where() -> str:
    return threading.current_thread().name


def test_all_threads_but_the_main_one_share_one() -> None:
    assert compute(CPU, where) == threading.main_thread().name
    first, second = (elsewhere(lambda: compute(CPU, where)) for _ in range(2))
    assert first == second != threading.main_thread().name
    assert elsewhere(lambda: compute(CPU, lambda: compute(CPU, where))) == first, "it does not wait for itself"
    assert elsewhere(lambda: compute(torch.device("cuda"), where)) not in (first, threading.main_thread().name)


def test_an_error_reaches_the_caller() -> None:
    def fail() -> None:
        raise ValueError("a pass failed")

    with pytest.raises(ValueError, match="a pass failed"):
        elsewhere(lambda: compute(CPU, fail))


def test_steps_and_their_end_are_made_there() -> None:
    seen: list[str] = []

    def steps() -> Iterator[int]:
        try:
            for number in range(3):
                seen.append(where())
                yield number
        finally:
            seen.append(where())

    assert elsewhere(lambda: list(computed(CPU, steps()))) == [0, 1, 2]

    def leave() -> None:
        begun = computed(CPU, steps())
        next(begun)
        begun.close()  # type: ignore[attr-defined]

    elsewhere(leave)
    assert len(seen) == 4 + 2
    assert set(seen) == {elsewhere(lambda: compute(CPU, where))}


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_a_thread_can_let_its_workers_go() -> None:
    library = libgomp()
    assert library is not None, "torch for Linux brings libgomp"

    def count() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    def work() -> tuple[int, int, int, float]:
        usual = torch.get_num_threads()
        torch.set_num_threads(2)
        try:
            before = count()
            torch.ones(10**6).exp_()
            during = count()
            release()
            return before, during, count(), float(torch.ones(10**6).exp_()[-1])
        finally:
            torch.set_num_threads(usual)

    found = elsewhere(work)
    assert isinstance(found, tuple)
    before, during, after, result = found
    assert (during, after) == (before + 1, before), os.environ.get("OMP_NUM_THREADS")
    assert result == pytest.approx(2.71828, abs=1e-4)
