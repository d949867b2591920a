import gc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from app.models import placement
from app.models.placement import WARM_UP_TOKENS, Loader, choose, is_out_of_memory, spare_threads
from mars.checkpoint import Checkpoint
from mars.decoders import EXACT
from mars.decoding import DECODERS
from mars.records import ForwardPass


def no_choice(device: str) -> int:
    raise AssertionError(f"the memory of {device} was asked for where there is no choice")


def test_one_device_takes_everything() -> None:
    assert choose(["cpu"], {"cpu": 3}, no_choice) == "cpu"


def test_the_device_with_the_fewest_checkpoints_is_taken() -> None:
    assert choose(["cuda:0", "cuda:1"], {"cuda:0": 1}, no_choice) == "cuda:1"


def test_among_equals_the_emptiest_is_taken() -> None:
    free = {"cuda:0": 10, "cuda:1": 30, "cuda:2": 20}
    assert choose(list(free), {}, free.__getitem__) == "cuda:1"


class Engine:
    pass


@pytest.fixture
def chosen() -> list[int]:
    """The numbers of threads that torch was told, none of which it heard."""
    return []


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch, chosen: list[int]) -> Loader:
    """A loader on two GPUs that are not there."""

    def load(source: str, device: str, **options: Any) -> Any:
        return SimpleNamespace(name=source, engine=Engine(), device=device)

    monkeypatch.setattr("mars.checkpoint.checkpoint.load_checkpoint", load)
    monkeypatch.setattr(placement, "devices", lambda device: ["cuda:0", "cuda:1"])
    monkeypatch.setattr(placement, "_free_bytes", lambda device: 1)
    monkeypatch.setattr(placement, "_warm_up", lambda checkpoint: None)
    monkeypatch.setattr(placement, "on", lambda device: pytest.MonkeyPatch.context())
    monkeypatch.setattr("torch.set_num_threads", chosen.append)
    return Loader("auto")


def test_two_lanes_get_a_device_each(loader: Loader) -> None:
    ar, mars = loader("ar"), loader("mars")
    assert [ar.device, mars.device] == ["cuda:0", "cuda:1"]
    assert loader.held() == {"cuda:0": 1, "cuda:1": 1}
    del mars
    gc.collect()
    assert loader("other").device == "cuda:1"


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (MemoryError(), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("shapes do not match"), False),
        (ValueError("config.json is missing"), False),
    ],
)
def test_a_full_memory_is_recognised(error: Exception, full: bool) -> None:
    assert is_out_of_memory(error) is full


@pytest.mark.parametrize(("cores", "usual", "threads"), [(1, 1, 1), (2, 2, 1), (8, 4, 4), (8, 8, 7)])
def test_one_core_is_left_to_the_page(monkeypatch: pytest.MonkeyPatch, cores: int, usual: int, threads: int) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(cores)), raising=False)
    assert spare_threads(usual) == threads


def test_who_says_how_many_threads_gets_them(
    monkeypatch: pytest.MonkeyPatch, chosen: list[int], loader: Loader
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert spare_threads(2) == 2
    loader("ar")
    Loader("auto", threads=3)("ar")
    assert chosen[1] == 3


def test_a_loader_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch, loader: Loader) -> None:
    said: list[str] = []

    def load(source: str, device: str, progress: Any, base: str, allow_other_base: bool) -> Any:
        for sentence, share in (("converting", 0.37), ("loading the weights", 1.0)):
            progress(sentence, share)
            said.append(adapted.told(source))
        return SimpleNamespace(name=source, engine=Engine(), device=device, base=(base, allow_other_base))

    monkeypatch.setattr("mars.checkpoint.checkpoint.load_checkpoint", load)
    adapted = Loader("auto", base="org/m", allow_other_base=True)
    checkpoint: Any = adapted("mine")
    assert checkpoint.base == ("org/m", True)
    assert said == ["converting, 35 %", ""]
    assert adapted.told("mine") == ""


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_large_model_learns_while_it_answers(
    seconds: float, monkeypatch: pytest.MonkeyPatch, tiny: Checkpoint
) -> None:
    """Where a pass takes a second, the lanes would not be ready for minutes."""
    monkeypatch.setattr(placement, "LEARNING_SECONDS", seconds)
    monkeypatch.setattr("torch.set_num_threads", lambda threads: None)
    monkeypatch.setattr("mars.checkpoint.checkpoint.load_checkpoint", lambda *_, **__: tiny)
    made, decoder = [], DECODERS[EXACT]

    def noted(*arguments: Any) -> Iterator[ForwardPass]:
        for record in decoder(*arguments):
            made.append(record)
            yield record

    monkeypatch.setattr("mars.decoding.DECODERS", dict(DECODERS) | {EXACT: noted})
    Loader("cpu", threads=1)("tiny")
    assert (len(made) > WARM_UP_TOKENS + 1) == (seconds > 0)
