"""Conversations that a model writes itself: its own prompts, or prompts from files, and its own greedy answers.

A masked model is trained best on text that its base would write: an adapter that drafts for a base learns from the
base's answers, not from corpus text. Prompts come from files, or from the base itself, which continues the chat
template from the start of a user's turn (Magpie, arXiv 2406.08464), optionally after the first words of a request.
"""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from mars.chat import encode_messages, encode_opening, encode_text
from mars.checkpoint import Checkpoint, load_checkpoint
from mars.checkpoint.converted import known_fingerprint
from mars.checkpoint.sources import locate
from mars.config import DecodingSettings
from mars.decoding.service import Service
from mars.lines import read_lines, read_objects
from mars.training.data import Messages, read_chats
from mars.training.settings import DistillSettings, keep_settings

# The first words of a user's turn, so that kinds of request are met that a model left to itself seldom writes.
# "" leaves the choice to it; what stands here more than once is asked for more often.
OPENINGS: tuple[str, ...] = (
    *[""] * 8,
    *["Summarize: "] * 4,
    *["Translate German to English: "] * 3,
    *("Translate the following sentence into Spanish: ", "Translate to English: "),
    *["Write a Python function that "] * 2,
    *("Write a program in Python to ", "Fix the bug in this code:\n```python\n", "Write a short story about "),
    *("Write an email to ", "Write a poem about ", "Draft a blog post about ", "Pretend you are ", "You are a "),
    *["Explain "] * 2,
    *("Explain to a child ", "Why ", "How does ", "How can I ", "What is the difference between ", "What are "),
    *["Who "] * 2,
    *("When was ", "Where is ", "Which ", "List five ", "Give me three tips ", "Compare ", "Describe "),
    *("Rewrite the following paragraph: ", "Correct the grammar of this sentence: "),
    *("Extract all names from the following text: ", "Classify the following reviews as positive or negative:\n"),
    "Read the passage below and answer the question.\n\nPassage: ",
    "Answer the question with the help of the text.\n\n",
    *("Solve the equation ", "What is the probability that ", "Calculate ", "If ", "A train ", "Suppose "),
)


LIMITS = ("max_prompt_tokens", "max_new_tokens", "second_turns", "temperature")
"""Settings that all lines of an output share; there may be more prompts."""


class Request(NamedTuple):
    """A conversation to write: `name` says where its prompt is from; `prompt` None lets the model write it."""

    name: str
    number: int
    prompt: str | None = None
    opening: str = ""


def requests(settings: DistillSettings) -> Iterator[Request]:
    """All conversations that the settings ask for, in the same order each time."""
    stems = set[str]()
    for source in settings.prompts:
        found = list(_from_file(source))
        taken = {request.name.rpartition(":")[0] for request in found}
        again = bool(taken & stems)  # another file of this name
        yield from (one._replace(name=f"{source}:{one.number}") if again else one for one in found)
        stems |= taken
    for number in range(settings.self_prompts):
        yield Request(f"self:{settings.seed}:{number}", number, None, OPENINGS[number % len(OPENINGS)])


def _from_file(source: str) -> Iterator[Request]:
    path, field = Path(source), "prompt"
    if not path.is_file() and ":" in source:
        path, field = Path(source.rpartition(":")[0]), source.rpartition(":")[2]
    if path.suffix == ".jsonl":
        for where, line in read_objects(path):
            text = line.get(field)
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"{where}: {field} must be text that is not empty")
            number = int(where.rpartition(" ")[2]) - 1
            yield Request(f"{path.stem}:{number}", number, text.strip())
    else:
        for number, text in read_lines(path):
            yield Request(f"{path.stem}:{number - 1}", number - 1, text.strip())


class Writer:
    """Writes conversations with one checkpoint, many at a time through one `Service`."""

    def __init__(self, checkpoint: Checkpoint, settings: DistillSettings):
        self._checkpoint = checkpoint
        self._settings = settings
        room = 2 * (settings.max_prompt_tokens + settings.max_new_tokens) + 64
        self._room = min(room, checkpoint.engine.context_length)
        self._service = Service(checkpoint.engine, settings.places, self._room)

    def write(self, request: Request) -> dict[str, Any] | None:
        """One line of the output; None if the prompt is too long or the model wrote none."""
        prompt = request.prompt or self._ask([], request.opening, request.number)
        if prompt is None:
            return None
        messages: Messages = [{"role": "user", "content": prompt}]
        ended = self._answer(messages)
        if ended is None:
            return None
        share = self._settings.second_turns
        if ended and int((request.number + 1) * share) > int(request.number * share):
            question = self._ask(messages, "", request.number)
            if question is not None:
                longer = [*messages, {"role": "user", "content": question}]
                if (last := self._answer(longer)) is not None:
                    messages, ended = longer, last
        return {"name": request.name, "messages": messages, "ended": ended}

    def _ask(self, messages: Messages, opening: str, number: int) -> str | None:
        """A user's turn that the model writes behind `messages`, beginning with `opening`."""
        tokenizer, settings = self._checkpoint.tokenizer, self._settings
        ids = encode_opening(tokenizer, messages) + encode_text(tokenizer, opening)
        written, ended = self._decode(
            ids,
            DecodingSettings(
                max_new_tokens=settings.max_prompt_tokens,
                temperature=settings.temperature,
                seed=settings.seed * 2**32 + number,
            ),
        )
        text = (opening + written).strip()
        return text if ended and len(text) > len(opening) + 2 else None

    def _answer(self, messages: Messages) -> bool | None:
        """Append the greedy answer to `messages`; returns whether it ended by itself, None for too long a prompt."""
        ids = encode_messages(self._checkpoint.tokenizer, messages)
        if len(ids) > self._settings.max_prompt_tokens * len(messages):
            return None
        text, ended = self._decode(ids, DecodingSettings(max_new_tokens=self._settings.max_new_tokens))
        if not text.strip():
            return None
        messages.append({"role": "assistant", "content": text})
        return ended

    def _decode(self, ids: Sequence[int], settings: DecodingSettings) -> tuple[str, bool]:
        """The text behind these ids, and whether it ended by itself; no text where the context has no room for it."""
        fitting = self._room - settings.max_new_tokens  # where no prompt fits at all, the service says so
        if len(ids) >= fitting > 0:
            return "", False
        written: list[int] = []
        ended = False
        for record in self._service.submit("autoregressive", ids, settings):
            written += record.rows[0].accepted_ids
            ended = record.rows[0].finish_reason == "stop"
        return self._checkpoint.decode(written), ended


def distill(source: str, settings: DistillSettings, until: float = math.inf) -> int:
    """Write the conversations that `settings` ask for and the output lacks; returns how many lines it has now.

    Each line is `{"name": …, "messages": [user, assistant, …], "ended": …}` and is written as soon as it is complete:
    after an interruption the same call goes on. Requests that gave nothing are listed in OUTPUT.skipped. None is begun
    once the monotonic clock is at `until`. ValueError where other weights, or other limits, wrote the lines so far.
    """
    output = Path(settings.output)
    kept = {"checkpoint": known_fingerprint(locate(source)[0])[:16]} | {one: getattr(settings, one) for one in LIMITS}
    keep_settings(output.with_name(output.name + ".settings"), kept)
    skipped = output.with_name(output.name + ".skipped")
    output.touch()
    done, seen = read_done(output)
    done |= {name for _, name in read_lines(skipped)} if skipped.is_file() else set()
    todo = [request for request in requests(settings) if request.name not in done]  # all, for one may be refused
    if not todo:
        return len(seen)
    writer, lock = Writer(load_checkpoint(source), settings), threading.Lock()

    def one(request: Request) -> None:
        if time.monotonic() >= until:
            return
        line = writer.write(request)
        with lock:
            if line is None or line["messages"][0]["content"] in seen:
                with skipped.open("a", encoding="utf-8") as file:
                    file.write(request.name + "\n")
                return
            seen.add(line["messages"][0]["content"])
            with output.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

    with ThreadPoolExecutor(settings.places) as pool:
        for _ in pool.map(one, todo):
            sys.stderr.write(f"\r{len(seen)} conversations ")
    sys.stderr.write("\n")
    return len(seen)


def read_done(output: Path) -> tuple[set[str], set[str]]:
    """Names and first prompts of the lines that `output` holds; a half-written last line is cut off."""
    whole, end, _ = output.read_bytes().rpartition(b"\n")
    with output.open("r+b") as file:
        file.truncate(len(whole) + len(end))
    chats = [(line.get("name"), chat) for (_, line), chat in zip(read_objects(output), read_chats(output), strict=True)]
    return {str(name) for name, _ in chats}, {chat.messages[0]["content"] for _, chat in chats}
