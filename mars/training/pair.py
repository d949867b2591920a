"""The pair of the page from nothing but a base: AR SFT, then MARS from it, on the model's own answers.

    sft.jsonl       problems with worked solutions, and conversations of the base that end and do not loop
    sft/            stage 1: a LoRA of plain SFT on them
    prompts.jsonl   other problems
    mars.jsonl      what stage 1 answers to them, to prompts of files and to prompts it writes itself, loops dropped
    mars/           stage 2: masks and the real tokens, held to stage 1's distribution; one adapter with stage 1's

Each step goes on where it was interrupted, and is left out if its result is there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mars.checkpoint import load_checkpoint
from mars.checkpoint.sources import RECORD_FILE
from mars.lines import read_objects
from mars.training.adapter_run import train_adapter
from mars.training.data import Messages, read_chats, synthetic_conversations
from mars.training.distill import distill, requests
from mars.training.settings import AdapterSettings, DistillSettings, PairSettings

_WORDS = 4
_REPEATED_SHARE = 0.1


def loops(text: str) -> bool:
    """Whether a text says a line twice, or a tenth of its runs of four words: repetition is easy to foretell."""
    lines = [line for line in map(str.strip, text.split("\n")) if len(line) > 3]
    words = text.split()
    runs = list(zip(*(words[start:] for start in range(_WORDS)), strict=False))
    return len(set(lines)) < len(lines) or len(set(runs)) < (1 - _REPEATED_SHARE) * len(runs)


def train_pair(settings: PairSettings, command: str) -> None:
    """Make the pair in `settings.output`."""
    output = Path(settings.output)
    output.mkdir(parents=True, exist_ok=True)
    if settings.prompts:  # which may be refused: before the hours of stage 1
        list(requests(DistillSettings(output=settings.output, prompts=settings.prompts)))
    files = {name: output / f"{name}.jsonl" for name in ("chats", "sft", "prompts", "answers", "mars")}
    if not files["sft"].is_file():
        given = [chat for source in settings.data for chat in read_chats(source)]  # first, for it may be refused
        own = list(_answered(settings, settings.base, files["chats"])) if settings.self_prompts else []
        lines: list[dict[str, Any]] = [{"messages": one} for one in [*_problems(settings, 0), *own]]
        lines += [{"messages": chat.messages, "ended": chat.ended} for chat in given]
        _write(files["sft"], lines)
    sft = {"masks": 0, "rank": settings.sft_rank, "minutes": settings.sft_minutes}
    _train(settings, command, settings.base, "sft", sft)
    if not files["mars"].is_file():
        _write(files["prompts"], ({"prompt": one[0]["content"]} for one in _problems(settings, 1)))
        prompts = (str(files["prompts"]), *settings.prompts)
        written = _answered(settings, str(output / "sft"), files["answers"], prompts)
        _write(files["mars"], ({"messages": one} for one in written))
    mars = {
        "masks": settings.masks,
        "sft_weight": settings.sft_weight,
        "block_size": 4,
        "rank": settings.rank,
        "anchors": settings.anchors,
        "keep": 0.75,
        "minutes": settings.mars_minutes,
    }
    _train(settings, command, str(output / "sft"), "mars", mars)


def _train(settings: PairSettings, command: str, base: str, stage: str, own: Mapping[str, Any]) -> None:
    """Train the adapter of a stage on its file, unless it is there."""
    output = Path(settings.output) / stage
    if not (output / RECORD_FILE).is_file():
        adapter = AdapterSettings(
            base=base,
            data=(f"{output}.jsonl",),
            output=str(output),
            batch_size=settings.batch_size,
            max_length=settings.max_length,
            save_steps=20,
            seed=settings.seed,
            resume=any((output / "work").glob("checkpoint-*/trainer_state.json")),
            **own,
        )
        train_adapter(adapter, command)


def _answered(settings: PairSettings, source: str, file: Path, prompts: tuple[str, ...] = ()) -> Iterator[Messages]:
    """What a checkpoint answers, of the conversations that all ended and none of which loops."""
    own: dict[str, Any] = {"self_prompts": settings.self_prompts, "places": settings.places, "seed": settings.seed}
    distill(load_checkpoint(source), DistillSettings(output=str(file), prompts=prompts, **own))
    for chat in read_chats(file):
        if chat.ended and not any(loops(turn["content"]) for turn in chat.messages if turn["role"] == "assistant"):
            yield chat.messages


def _problems(settings: PairSettings, part: int) -> Iterator[Messages]:
    """Training problems of the six families; another part has others."""
    return synthetic_conversations(settings.problems, 2 * settings.seed + part)


def _write(file: Path, lines: Iterable[dict[str, Any]]) -> None:
    part = file.with_suffix(".part")
    with part.open("w", encoding="utf-8") as open_file:
        open_file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    part.replace(file)
    sys.stderr.write(f"{file}: {sum(1 for _ in read_objects(file))} lines\n")
