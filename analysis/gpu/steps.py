"""The steps, the most valuable first, each with its commands, its needs and its time limit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

MEASURING = ("pydantic", "numpy", "scipy", "pandas", "pyarrow", "tqdm", "filelock")
"""Modules that every measurement imports beside torch and transformers."""
TRAINING = ("peft", "accelerate")
CHECKERS = ("lm_eval", "nltk", "langdetect")
SHIPPED, SHIPPED_AR, SHIPPED_DRAFT = (f"assets/checkpoints/{name}" for name in ("mars-b8", "ar-sft", "draft-ar"))
CUDA_TESTS = (
    "tests/mars/engine/test_graphs.py",
    "tests/mars/engine/test_triton_kernels.py",
    "tests/mars/engine/test_triton_head.py",
    "tests/mars/engine/test_engine.py",
    "tests/mars/test_sampling.py",
    "tests/mars/decoding/test_whole_pass.py",
)
ADAPTER = "assets/adapters/smollm2-135m-mars"
SPEC_BENCH = "assets/benchmarks/spec_bench/question.jsonl"
EXACT = "self_speculative"
CALL_MINUTES = 8.5
"""Of training, in one call that ends within ten minutes."""
_SHAPE = {
    "model_type": "qwen2",
    "architectures": ["Qwen2ForCausalLM"],
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 128,
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
}
_QUESTIONS: list[dict[str, object]] = [
    {"question_id": 81, "category": "writing", "turns": ["Write a line.", "Write another."]},
    {"question_id": 161, "category": "translation", "turns": ["Good morning."]},
]
Words = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Commands behind `python`, one after the other, that together end within `minutes`.

    `needs` are modules, `after` are steps that must have ended well. With `base` it decodes with the real base. With
    `goes_on` it continues where it stopped if the time limit ended it. `result` is the file for the JSON that the last
    command prints as its last line.
    """

    name: str
    does: str
    minutes: float
    commands: tuple[tuple[str, ...], ...]
    needs: tuple[str, ...] = MEASURING
    after: tuple[str, ...] = ()
    base: bool = False
    goes_on: bool = False
    result: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Folders, device and base of the steps; `tiny` rehearses each with the smallest sizes there are.

    `training` are the minutes of training, in calls of at most `CALL_MINUTES`.
    """

    out: Path
    device: str
    base: str
    training: float = 17.0
    tiny: bool = False
    adapter: Path = field(init=False)
    runs: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "adapter", self.out / "adapter")
        object.__setattr__(self, "runs", self.out / "runs")

    def size(self, full: object, tiny: object) -> str:
        """An option's value, or its value in a rehearsal."""
        return str(tiny if self.tiny else full)

    @property
    def inputs(self) -> Path:
        """The folder that a rehearsal reads."""
        return self.out / "tiny"

    @property
    def data(self) -> tuple[str, ...]:
        """Conversations for the adapter."""
        if self.tiny:
            return (str(self.inputs / "conversations.jsonl"),)
        return tuple(str(file) for file in sorted(Path(ADAPTER).glob("conversations*.jsonl")))

    @property
    def training_calls(self) -> int:
        """The number of calls of training."""
        return 2 if self.tiny else max(1, ceil(self.training / CALL_MINUTES))


def steps_of(setup: Setup) -> tuple[Step, ...]:
    """All steps, in order."""
    masks, draft = _speed(setup)
    return (*_correct(setup), masks, *_passes(setup), *_shipped(setup), *_adapter(setup), draft)


def _correct(setup: Setup) -> Iterator[Step]:
    yield Step(
        name="tests",
        does="the tests that need CUDA",
        minutes=5,
        commands=(("-m", "pytest", "-q", "-m", "gpu", "-o", "minversion=7", "-W", "default", *CUDA_TESTS),),
        needs=("pytest", "hypothesis", "pytest_timeout", "pydantic"),
    )
    sizes: Words = ("--problems", setup.size(25, 1), "--batch-sizes", setup.size("1,8", "1"))
    sizes += ("--layouts", setup.size("linear,quadratic,auto", "linear"), "--max-new-tokens", setup.size(192, 8))
    for dtype in ("float32", "bfloat16"):
        yield Step(
            name=f"agree-{dtype}",
            does=f"exact decoding against autoregressive decoding in {dtype}, token by token",
            minutes=4,
            commands=(_analysis(setup, "agree", "--checkpoint", SHIPPED, "--dtype", dtype, "--seed", "1", *sizes),),
            result=setup.runs / f"agree-{dtype}.json",
        )


def _speed(setup: Setup) -> Iterator[Step]:
    sizes = setup.size("1,4,8,16", "1")
    rounds = ("--problems", setup.size(4, 1), "--repeats", "5", "--max-new-tokens", setup.size(192, 4))
    masked = f"{EXACT}/linear,{EXACT}/quadratic,sliding_window@0.95,block_cached@0.95"
    for name, does, options in (
        (
            "bench-masks",
            "the shipped MARS model: exact decoding, τ = 0.95, a block cache, AR and generate",
            ("--checkpoint", SHIPPED, "--decoders", setup.size(masked, f"{EXACT}/linear")),
        ),
        (
            "bench-draft",
            "the shipped AR model with its draft, AR and generate",
            ("--checkpoint", SHIPPED_AR, "--draft", SHIPPED_DRAFT, "--decoders", "speculative"),
        ),
    ):
        yield Step(
            name=name,
            does=does,
            minutes=5,
            commands=(_analysis(setup, "bench", *options, "--dtype", "bfloat16", "--batch-sizes", sizes, *rounds),),
            result=setup.runs / f"{name}.json",
        )


def _passes(setup: Setup) -> Iterator[Step]:
    record = setup.out / "linear.jsonl"
    measured: Words = ("--dtype", "bfloat16", "--batch-sizes", setup.size("1,2,4,8,16,32,64", "1"), "--repeats", "5")
    measured += ("--context", setup.size(512, 8), "--replay", str(record))
    for shape, minutes in (("qwen2.5-7b", 4), ("qwen2.5-0.5b", 3)):
        recorded: Words = ("-m", "mars.generate", "--checkpoint", SHIPPED, "--decoder", EXACT, "--layout", "linear")
        recorded += ("--device", setup.device, "--max-new-tokens", setup.size(192, 8), "--records", str(record))
        yield Step(
            name=f"passes-{shape.removeprefix('qwen2.5-')}",
            does=f"seconds of a pass of the shape {shape} with random weights, and its share of the copy bandwidth",
            minutes=minutes,
            commands=(
                (*recorded, "--prompt", "Ana has 3 apples and buys 4 more. How many has she?"),
                _analysis(setup, "bench", "--shape", setup.size(shape, setup.inputs / "config.json"), *measured),
            ),
            result=setup.runs / f"passes-{shape.removeprefix('qwen2.5-')}.json",
        )


def _shipped(setup: Setup) -> Iterator[Step]:
    """The adapter of the repository; in a rehearsal the tiny model."""
    named: Words = ("--checkpoint", setup.size(ADAPTER, SHIPPED), "--dtype", "bfloat16")
    questions: Words = ("--questions", str(setup.inputs / "questions.jsonl")) if setup.tiny else ("--limit", "4")
    exact = f"{EXACT}/linear,{EXACT}/tree,{EXACT}/lookup,{EXACT}/auto"
    some = setup.size(f"autoregressive,prompt_lookup/k10,{exact},sliding_window@0.95", f"{EXACT}/linear")
    questions += ("--decoders", some, "--max-new-tokens", setup.size(256, 4), "--runs", str(setup.runs))
    yield Step(
        name="kinds",
        does="Spec-Bench with the adapter of the repository: tokens per pass and speed-up, by category",
        minutes=4,
        commands=(_analysis(setup, "spec-bench", *named, *questions),),
        base=True,
        result=setup.runs / "kinds.json",
    )
    decoders = f"{EXACT}/linear,{EXACT}/quadratic,relaxed@0.3/quadratic,sliding_window@0.8,sliding_window@0.5"
    named += ("--no-generate", "--questions", str(setup.inputs / "questions.jsonl") if setup.tiny else SPEC_BENCH)
    named += ("--decoders", setup.size(decoders, "sliding_window@0.8"), "--max-new-tokens", setup.size(64, 4))
    # At least as many questions as the largest batch; the recipe gpu-bench-135m has 16 rows.
    for number, sizes, limit in (("1", "1,8", 1), ("2", "64", 5)):
        yield Step(
            name=f"frontier-{number}",
            does=f"τ, exact and AR with that adapter at batch {sizes}",
            minutes=2,
            commands=(
                _analysis(setup, "bench", *named, "--batch-sizes", setup.size(sizes, "1"), "--limit", str(limit)),
            ),
            base=True,
            result=setup.runs / f"frontier-{number}.json",
        )


def _adapter(setup: Setup) -> Iterator[Step]:
    train: Words = ("-m", "mars.training", "adapter", "--base", setup.base, "--data", *setup.data)
    train += ("--output", str(setup.adapter), "--rank", setup.size(32, 2), "--masks", setup.size(7, 2))
    train += ("--block-size", setup.size(4, 2), "--anchors", setup.size(640, 8), "--batch-size", setup.size(16, 2))
    train += ("--save-steps", "500", "--minutes", setup.size(setup.training, 0.0002))
    train += ("--pause-after", setup.size(CALL_MINUTES, 0.0001))
    before: Words = ()
    for number in range(1, setup.training_calls + 1):
        yield Step(
            name=f"train-{number}",
            does="an adapter of rank 32 with 7 masks on all anchors",
            minutes=CALL_MINUTES + 1.3,
            commands=((*train, *(("--resume",) if before else ())),),
            needs=(*MEASURING, *TRAINING),
            after=before,
            base=True,
        )
        before = (f"train-{number}",)
    asked: Words = ("--checkpoint", str(setup.adapter), "--baseline", setup.base)
    asked += ("--dtype", "bfloat16", "--runs", str(setup.runs))
    exact = f"{EXACT}/linear,{EXACT}/tree,{EXACT}/lookup,{EXACT}/quadratic"
    questions: Words = ("--questions", str(setup.inputs / "questions.jsonl")) if setup.tiny else ("--limit", "10")
    questions += ("--decoders", setup.size(f"autoregressive,{exact},sliding_window@0.95", f"{EXACT}/linear"))
    yield Step(
        name="spec-bench",
        does="Spec-Bench with the new adapter: tokens per pass and speed-up, by category",
        minutes=9,
        commands=(_analysis(setup, "spec-bench", *asked, *questions, "--max-new-tokens", setup.size(256, 4)),),
        after=before,
        base=True,
        goes_on=True,
        result=setup.runs / "spec-bench.json",
    )
    swept = ",".join(f"sliding_window@{threshold}" for threshold in ("none", 0.99, 0.95, 0.9, 0.8, 0.7, 0.5))
    prompts: Words = ("--timed", "--batch-size", setup.size(32, 2), "--max-new-tokens", setup.size(512, 4))
    prompts += ("--decoders", setup.size(f"autoregressive,{swept},{EXACT}/linear", "sliding_window@0.9"))
    prompts += ("--limit", "2") if setup.tiny else ()
    yield Step(
        name="ifeval",
        does="IFEval with the new adapter: instructions followed under each τ and exactly",
        minutes=9.5,
        commands=(_analysis(setup, "ifeval", *asked, *prompts),),
        needs=(*MEASURING, *CHECKERS),
        after=before,
        base=True,
        goes_on=True,
        result=setup.runs / "ifeval.json",
    )


def _analysis(setup: Setup, command: str, *options: str) -> tuple[str, ...]:
    return ("-m", "analysis", command, "--device", setup.device, *options, "--json")


def write_inputs(folder: Path) -> None:
    """Write the inputs of a rehearsal, the smallest shape, questions and conversations, where `Setup` names them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(_SHAPE) + "\n", encoding="utf-8")
    _write_lines(folder / "questions.jsonl", _QUESTIONS)
    chats: list[dict[str, object]] = [
        {
            "messages": [
                {"role": "user", "content": f"Add {n} and 2."},
                {"role": "assistant", "content": f"{n} + 2 " * 4},
            ]
        }
        for n in range(6)
    ]
    _write_lines(folder / "conversations.jsonl", chats)


def _write_lines(file: Path, lines: list[dict[str, object]]) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
