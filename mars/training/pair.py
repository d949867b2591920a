"""The pair of the page from nothing but a base: AR SFT, then MARS from it, on the model's own answers.

    sft.jsonl       problems with worked solutions, and conversations of the base that end and do not loop
    sft/            stage 1: a LoRA of plain SFT on them
    prompts.jsonl   other problems
    mars.jsonl      what stage 1 answers to them, to prompts of files and to prompts it writes itself, loops dropped
    mars/           stage 2: masks and the real tokens, held to stage 1's distribution; it acts on top of sft/

Each step goes on where it was interrupted, and is left out if its result is there.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mars.checkpoint.converted import known_fingerprint
from mars.checkpoint.sources import RECORD_FILE, locate
from mars.lines import object_in, read_objects
from mars.training.adapter_run import train_adapter
from mars.training.data import Messages, read_chats, synthetic_conversations
from mars.training.distill import distill, requests
from mars.training.settings import AdapterSettings, DistillSettings, PairSettings, keep_settings
from mars.training.trainer import SETTINGS_FILE

_WORDS = 4
_REPEATED_SHARE = 0.1


def loops(text: str) -> bool:
    """Whether a text says a line twice, or a tenth of its runs of four words: repetition is easy to foretell."""
    lines = [line for line in map(str.strip, text.split("\n")) if len(line) > 3]
    words = text.split()
    runs = list(zip(*(words[start:] for start in range(_WORDS)), strict=False))
    return len(set(lines)) < len(lines) or len(set(runs)) < (1 - _REPEATED_SHARE) * len(runs)


def train_pair(settings: PairSettings, command: str) -> None:
    """Make the pair in `settings.output`, or the part of it that `pause_after` leaves time for."""
    until = math.inf if settings.pause_after is None else time.monotonic() + 60 * settings.pause_after
    for _ in _steps(settings, command, until):
        if time.monotonic() >= until:
            sys.stderr.write("paused: the same command goes on\n")
            return


def _steps(settings: PairSettings, command: str, until: float) -> Iterator[None]:
    """Yields after each step that it does, whole or not where the monotonic clock is at `until`."""
    output = Path(settings.output)
    files = {name: output / f"{name}.jsonl" for name in ("chats", "sft", "prompts", "answers", "mars")}
    # What may be refused comes first, before the settings are kept and the hours of stage 1.
    held = {"data": [Path(file).read_bytes() for file in settings.data], "prompts": list[bytes]()}
    if settings.prompts:
        found = requests(DistillSettings(output=settings.output, prompts=settings.prompts))
        held["prompts"] = ["\0".join(str(one.prompt) for one in found).encode()]
    given = [] if files["sft"].is_file() else [chat for source in settings.data for chat in read_chats(source)]
    own = dict[str, Any](output=None, pause_after=None, base=known_fingerprint(locate(settings.base)[0])[:16])
    own |= {name: [hashlib.sha256(one).hexdigest()[:16] for one in parts] for name, parts in held.items()}
    keep_settings(output / SETTINGS_FILE, asdict(settings) | own)
    asked: dict[str, Any] = {name: getattr(settings, name) for name in ("self_prompts", "places", "seed")}
    problems = [synthetic_conversations(settings.problems, 2 * settings.seed + part) for part in range(2)]
    if not files["sft"].is_file():
        if settings.self_prompts:
            distill(settings.base, DistillSettings(output=str(files["chats"]), **asked), until)
            yield
        talks = [*problems[0], *(_whole(files["chats"]) if settings.self_prompts else ())]
        lines: list[dict[str, Any]] = [{"messages": one} for one in talks]
        lines += [{"messages": chat.messages, "ended": chat.ended} for chat in given]
        _write(files["sft"], lines)
    sft = {"masks": 0, "rank": settings.sft_rank, "minutes": settings.sft_minutes}
    yield from _train(settings, command, settings.base, "sft", sft, until)
    if not files["mars"].is_file():
        _write(files["prompts"], ({"prompt": one[0]["content"]} for one in problems[1]))
        prompts = (str(files["prompts"]), *settings.prompts)
        distill(str(output / "sft"), DistillSettings(output=str(files["answers"]), prompts=prompts, **asked), until)
        yield
        _write(files["mars"], ({"messages": one} for one in _whole(files["answers"])))
    mars = {name: getattr(settings, name) for name in ("masks", "sft_weight", "own_block", "rank", "anchors")}
    mars |= {"block_size": 4, "keep": 0.75, "minutes": settings.mars_minutes}
    yield from _train(settings, command, str(output / "sft"), "mars", mars, until)


def _train(
    settings: PairSettings, command: str, base: str, stage: str, own: dict[str, Any], until: float
) -> Iterator[None]:
    """Train the adapter of a stage on its file, or go on with it, and yield; nothing where it is there."""
    output = Path(settings.output) / stage
    if (record := object_in(output / RECORD_FILE)) and not record["measured"].get("paused"):
        sys.stderr.write(f"{output} is there\n")
        return
    adapter = AdapterSettings(
        base=base,
        data=(f"{output}.jsonl",),
        output=str(output),
        batch_size=settings.batch_size,
        max_length=settings.max_length,
        save_steps=20,
        seed=settings.seed,
        resume=any((output / "work").glob("checkpoint-*/trainer_state.json")),
        pause_after=None if until == math.inf else max(1, until - time.monotonic()) / 60,
        **own,
    )
    train_adapter(adapter, command)
    yield


def _whole(file: Path) -> Iterator[Messages]:
    """The conversations in a file that all ended and none of which loops."""
    for chat in read_chats(file):
        if chat.ended and not any(loops(turn["content"]) for turn in chat.messages if turn["role"] == "assistant"):
            yield chat.messages


def _write(file: Path, lines: Iterable[dict[str, Any]]) -> None:
    part = file.with_suffix(".part")
    with part.open("w", encoding="utf-8") as open_file:
        open_file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    part.replace(file)
    sys.stderr.write(f"{file}: {sum(1 for _ in read_objects(file))} lines\n")
