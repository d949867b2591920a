"""Times of passes by shape: with an engine on a fake clock, and with a tiny shape on the CPU."""

import json
from collections import Counter
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel, Qwen2Config

from analysis.__main__ import main
from analysis.benches.bandwidth import Traffic
from analysis.benches.step_times import SHAPES, Replay, StepPlan, random_model, read_replay, read_shape, step_times
from analysis.stats.intervals import Estimate
from mars.engine.engine import Clock
from mars.engine.window import Window
from mars.records import ForwardPass, Proposal, RowPass, to_json

pytestmark = pytest.mark.usefixtures("small_tensors")
TRAFFIC = Traffic(weight_bytes=1000, position_bytes=10, bytes_per_second=2_000_000.0)


class FakeEngine:
    """A pass takes a millisecond for each query of a row; what is forwarded is kept."""

    mask_token_id = None
    stop_token_ids: frozenset[int] = frozenset()
    context_length = 64
    vocab_size = 10
    device = torch.device("cpu")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.opened: list[tuple[int, int]] = []
        self.windows: list[Window] = []

    def open(self, rows: int, capacity: int, *, use_cache: bool = True) -> "FakeEngine":
        self.opened.append((rows, capacity))
        return self

    def forward(self, window: Window) -> torch.Tensor:
        self.windows.append(window)
        self.seconds += window.columns / 1000
        return torch.zeros(window.rows, window.keep, self.vocab_size)

    def clock(self) -> Clock:
        return Clock(now=lambda: self.seconds)


def test_every_shape_of_pass_is_timed() -> None:
    engine, plan = FakeEngine(), StepPlan.of(3, (1, 4), 20, 5, None)
    done: list[int] = []
    steps = step_times(engine, TRAFFIC, plan, done.append)  # type: ignore[arg-type]
    assert [(step.batch_size, step.queries) for step in steps] == [(1, 1), (1, 5), (1, 9), (4, 1), (4, 5), (4, 9)]
    assert [step.seconds.median for step in steps] == pytest.approx([0.001, 0.005, 0.009] * 2)
    assert [step.bandwidth_share for step in steps[1::3]] == pytest.approx(
        [(1000 + rows * 25 * 10) / 0.005 / 2_000_000 for rows in (1, 4)]
    )
    assert engine.opened == [(1, 29), (4, 29)]
    assert sum(done) == 2 * 3 * 6
    assert set(Counter((window.rows, window.columns) for window in engine.windows).values()) == {60}


def test_windows_stand_behind_the_context() -> None:
    engine = FakeEngine()
    step_times(engine, TRAFFIC, StepPlan.of(3, (2,), 20, 5, None))  # type: ignore[arg-type]
    windows = {window.columns: window for window in engine.windows}
    for queries, window in windows.items():
        assert window.slots_RQ.tolist() == [list(range(21, 21 + queries))] * 2
        assert (window.extent, window.keep) == (21 + queries, queries)
    assert [windows[queries].sees_RQQ is None for queries in (1, 5, 9)] == [True, True, False]


def test_the_recorded_query_length_is_measured_too() -> None:
    assert StepPlan.of(4, (1,), 20, 5, Replay(tokens_per_forward=2.0, queries=11)).queries == (1, 7, 11, 16)
    assert StepPlan.of(1, (1,), 20, 5, None).queries == (1,)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [((0, 20, 5), "block_size"), ((4, 0, 5), "context must be >= 1, got 0"), ((4, 20, 0), "repeats must be >= 1")],
)
def test_bad_plans(numbers: tuple[int, int, int], words: str) -> None:
    block_size, context, repeats = numbers
    with pytest.raises(ValueError, match=words):
        StepPlan.of(block_size, (1,), context, repeats, None)


def test_windows_must_fit_the_context() -> None:
    with pytest.raises(ValueError, match=r"context \+ queries must be <= the context length of 64, got 84"):
        step_times(FakeEngine(), TRAFFIC, StepPlan.of(8, (1,), 20, 5, None))  # type: ignore[arg-type]


def record(path: Path, phase: str, accepted: tuple[int, ...], query_tokens: int) -> None:
    proposals = (Proposal(5, 1.0, "clean"),) * 4
    rows = tuple(RowPass(row, 0, proposals, count, None) for row, count in enumerate(accepted))
    with path.open("a") as file:
        file.write(to_json(ForwardPass(0, phase, 0.1, query_tokens, rows)) + "\n")  # type: ignore[arg-type]


def test_replay_counts_decode_and_verify_passes(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    record(path, "prefill", (0, 0), 100)
    record(path, "decode", (3, 2), 10)
    record(path, "verify", (1,), 6)
    assert read_replay(path) == Replay(tokens_per_forward=2.0, queries=5)


def test_replay_refusals(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with pytest.raises(ValueError, match=r"run.jsonl cannot be read: No such file"):
        read_replay(path)
    record(path, "prefill", (0,), 100)
    with pytest.raises(ValueError, match="holds no decode or verify pass"):
        read_replay(path)
    path.write_text("{}\n")
    with pytest.raises(ValueError, match=r"run.jsonl, line 1: record: index is missing"):
        read_replay(path)


@pytest.fixture
def tiny_config(tmp_path: Path, tiny_model: PreTrainedModel) -> Path:
    tiny_model.config.save_pretrained(tmp_path)
    return tmp_path / "config.json"


def test_shapes(tiny_config: Path) -> None:
    assert read_shape("qwen2.5-7b").intermediate_size == 18944
    assert read_shape(str(tiny_config)).hidden_size == 32
    with pytest.raises(
        ValueError, match=r"shape must be qwen2.5-0.5b, qwen2.5-7b or the path of a config.json, got 'x'"
    ):
        read_shape("x")
    with pytest.raises(ValueError, match=r"no/config.json is missing"):
        read_shape("no/config.json")


@pytest.mark.parametrize(("name", "billions"), [("qwen2.5-0.5b", 0.494), ("qwen2.5-7b", 7.616)])
def test_shapes_have_the_published_size(name: str, billions: float) -> None:
    model = random_model(read_shape(name), torch.bfloat16, torch.device("meta"))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert parameters / 1e9 == pytest.approx(billions, abs=0.001)
    shape, traffic = SHAPES[name], Traffic.of(model)
    embedding = 0 if shape["tie_word_embeddings"] else shape["vocab_size"] * shape["hidden_size"]
    assert traffic.weight_bytes == 2 * (parameters - embedding)
    # 2 bytes × keys and values × layers × heads × 64 or 128 numbers
    assert traffic.position_bytes == {"qwen2.5-0.5b": 2 * 2 * 24 * 2 * 64, "qwen2.5-7b": 2 * 2 * 28 * 4 * 128}[name]
    assert traffic.bytes_per_second is None


def test_random_models_are_alike(tiny_config: Path) -> None:
    config = read_shape(str(tiny_config))
    assert isinstance(config, Qwen2Config)
    first, second = (random_model(config, torch.float32, torch.device("cpu")) for _ in range(2))
    assert all(map(torch.equal, first.parameters(), second.parameters()))


def shape_command(config: Path, *more: str) -> list[str]:
    small = ["--batch-sizes", "1,2", "--block-size", "3", "--context", "16", "--device", "cpu", "--dtype", "float32"]
    return ["bench", "--shape", str(config), *small, *more]


def test_command_with_replay(tiny_config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run.jsonl"
    record(run, "verify", (3, 1), 8)
    assert main(shape_command(tiny_config, "--replay", str(run), "--json")) == 0
    *table, last = capsys.readouterr().out.splitlines()
    found = json.loads(last)
    assert [line.split()[:2] for line in table[1:9]] == [[str(b), str(q)] for b in (1, 2) for q in (1, 4, 5, 9)]
    assert "random weights, float32" in table[-1]
    single, replayed, linear, _ = found["steps"][4:]
    seconds = {step["queries"]: step["seconds"]["median"] for step in found["steps"][4:]}
    assert single["predicted_speedup"] == 1.0
    assert replayed["predicted_tokens_per_second"] == pytest.approx(2 * 2.0 / seconds[4])
    assert replayed["predicted_speedup"] == pytest.approx(2.0 * seconds[1] / seconds[4])
    assert "predicted_speedup" not in linear
    assert (found["replay"]["tokens_per_forward"], found["replay"]["queries"]) == (2.0, 4)
    assert found["plan"]["context"] == 16
    assert Estimate(**single["seconds"]).low > 0
    assert {"threads", "hardware", "dtype", "command"} <= set(found)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--shape", "gpt"], "shape must be qwen2.5-0.5b, qwen2.5-7b or the path of a config.json"),
        (["--context", "100000"], "context + queries must be <= the context length of 384"),
        (["--block-size", "0"], "block_size must be >= 1"),
        (["--decoders", "jacobi"], "leave out --checkpoint, --ar, --draft and --decoders"),
    ],
)
def test_command_refusals(
    tiny_config: Path, more: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shape_command(tiny_config, *more)) == 2
    output = capsys.readouterr()
    assert sentence in output.err.splitlines()[-1]
    assert output.out == ""
