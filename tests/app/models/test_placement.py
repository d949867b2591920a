from types import SimpleNamespace
from typing import Any

import pytest

from app.models import placement
from app.models.placement import Loader, is_out_of_memory, spare_threads
from mars.decoding.policy import Policy


class Engine:
    pass


@pytest.fixture
def chosen() -> list[int]:
    """The numbers of threads that torch was told, none of which it heard."""
    return []


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch, chosen: list[int]) -> Loader:
    """A loader of no weights."""

    def load(source: str, device: str, **options: Any) -> Any:
        return SimpleNamespace(name=source, engine=Engine(), device=device)

    monkeypatch.setattr("mars.checkpoint.checkpoint.load_checkpoint", load)
    monkeypatch.setattr(placement, "_warm_up", lambda checkpoint: None)
    monkeypatch.setattr(placement, "on", lambda device: pytest.MonkeyPatch.context())
    monkeypatch.setattr("torch.set_num_threads", chosen.append)
    return Loader("auto")


def test_loading_times_passes_without_masks(tiny_folder: Any) -> None:
    assert Policy(Loader("cpu")(str(tiny_folder)).engine).times.knows(1)


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


def test_who_says_how_many_threads_gets_it(monkeypatch: pytest.MonkeyPatch, chosen: list[int], loader: Loader) -> None:
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
