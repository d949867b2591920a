"""Conversations to token sequences: synthetic problems and recall drills, or any chat JSONL."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from mars.chat import encode_messages, encode_text, end_of_turn
from mars.lines import read_objects
from mars_tasks import TASKS, sample
from mars_tasks.base import ANIMALS, CITIES, COLORS, FRUITS, ITEMS, PEOPLE, PLACES, TOOLS, VEGETABLES

IGNORED = -100
LEAST_ANSWER = 4  # tokens of an answer that an adapter learns from
_WORDS = (*PEOPLE, *CITIES, *ITEMS, *COLORS, *ANIMALS, *PLACES, *FRUITS, *VEGETABLES, *TOOLS)
_LETTERS = "ABCDEFGH"


ROLES = ("system", "user", "assistant")
Messages = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class Conversation:
    """Token ids, and the spans [first, end) of them that the assistant wrote and that are taught, end of turn included.

    A span that ends before its turn does, since the sequence was cut or the answer never ended, is no whole answer.
    """

    ids: tuple[int, ...]
    answers: tuple[tuple[int, int], ...]


Numbered = tuple[int, Conversation]
"""An example, with a number that no other example of the training has: it seeds what is drawn for it."""


def synthetic_conversations(count: int, data_seed: int, drill_share: float = 0.0) -> Iterator[Messages]:
    """`count` conversations: training problems, families in turn, with the share of drills spread evenly among them.

    Another `data_seed` gives other conversations.
    """
    families = list(TASKS)
    problems = 0
    for index in range(count):
        seed = data_seed * 10**9 + index
        if int((index + 1) * drill_share) > int(index * drill_share):
            yield drill(seed)
            continue
        problem = sample(families[problems % len(families)], seed, split="train")
        problems += 1
        yield [{"role": "user", "content": problem.prompt}, {"role": "assistant", "content": problem.solution}]


def drill(seed: int) -> Messages:
    """A recall drill, the same for a seed on any machine: rows of words, numbers and letters, to be said again.

    A model trained from scratch on the tasks alone learns arithmetic and wording long before it learns to look a word
    up in the prompt, since few tokens of a solution need that. In a drill almost all do (docs/log.md).
    """
    rng = Random(f"drill/{seed}")
    count, width = rng.randint(3, 7), rng.randint(1, 2)
    rows = [[key, *(_cell(rng, index) for _ in range(width))] for index, key in enumerate(_keys(rng, count))]
    lines = [" ".join(row) for row in rows]
    listed = "\n".join(f"- {line}" for line in lines) if rng.random() < 0.5 else f"Options: {', '.join(lines)}"
    order = rng.sample(range(count), rng.randint(2, count))
    wanted = ", ".join(rows[index][0] for index in order)
    return [
        {"role": "user", "content": f"{listed}\nSay again: {wanted}"},
        {"role": "assistant", "content": ", ".join(lines[index] for index in order)},
    ]


def _keys(rng: Random, count: int) -> list[str]:
    if rng.random() < 0.3:
        return [str(10 * rng.randint(1, 9) + ones) for ones in rng.sample(range(10), count)]
    return rng.sample(_WORDS, count)


def _cell(rng: Random, index: int) -> str:
    kind = rng.random()
    if kind < 0.3:
        return _LETTERS[index]
    return str(rng.randint(10, 99)) if kind < 0.55 else rng.choice(_WORDS)


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation of a file: its turns, whether the last answer ended by itself, and where it stands."""

    messages: Messages
    ended: bool
    where: str


def read_chats(path: str | Path) -> Iterator[Chat]:
    """Conversations of a JSONL file: `{"messages": [{"role": …, "content": …}, …]}` a line, of turns that alternate.

    A system turn may come first; the user opens and the assistant ends. A content is text, or parts of which each is
    text. `"ended": false` says that the last answer was cut off, so that no end of turn is taught behind it. ValueError
    names the file, the line, the field and what is allowed.
    """
    for where, line in read_objects(path):
        turns = line.get("messages")
        if not isinstance(turns, list):
            hint = "; rename conversations, from and value of ShareGPT" if "conversations" in line else ""
            raise ValueError(
                f'{where}: messages must be a list of {{"role": …, "content": …}}, got {_shown(turns)}{hint}'
            )
        messages = [_turn(turn, f"{where}: messages[{number}]") for number, turn in enumerate(turns)]
        first = int(bool(messages) and messages[0]["role"] == "system")
        for number, message in enumerate(messages[first:], start=first):
            wanted = ROLES[1 + (number - first) % 2]
            if message["role"] != wanted:
                raise ValueError(
                    f"{where}: messages[{number}].role must be {wanted!r}, got {message['role']!r}: user and assistant "
                    "take turns, after a system turn at most, and the user begins"
                )
        if len(messages) < 2 or messages[-1]["role"] != "assistant":
            raise ValueError(f"{where}: messages must end with an assistant's turn, which is what the model learns")
        ended = line.get("ended", True)
        if not isinstance(ended, bool):
            raise ValueError(f"{where}: ended must be true or false, got {_shown(ended)}")
        yield Chat(messages, ended, where)


def _turn(turn: Any, where: str) -> dict[str, str]:
    if not isinstance(turn, dict):
        raise ValueError(f'{where} must be {{"role": …, "content": …}}, got {_shown(turn)}')
    role, content = turn.get("role"), turn.get("content")
    if role not in ROLES:
        raise ValueError(f"{where}.role must be one of {', '.join(ROLES)}, got {_shown(role)}")
    if isinstance(content, list) and all(
        isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str) for part in content
    ):
        content = "".join(part["text"] for part in content)
    if not isinstance(content, str) or not content.strip():
        raise ValueError(f"{where}.content must be text that is not empty, got {_shown(content)}")
    return {"role": role, "content": content}


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"


def encode_conversation(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[dict[str, str]], *, ended: bool = True
) -> Conversation:
    """Tokenize a conversation; each answer has the template's end behind it, the last one only if it `ended`."""
    ids: list[int] = []
    answers: list[tuple[int, int]] = []
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        ids = encode_messages(tokenizer, messages[:number])
        first = len(ids)
        ids += encode_text(tokenizer, message["content"])
        if ended or number < len(messages) - 1:
            ids += end_of_turn(tokenizer)
        answers.append((first, len(ids)))
    return Conversation(tuple(ids), tuple(answers))


def encode_example(tokenizer: PreTrainedTokenizerBase, chat: Chat, max_length: int) -> Conversation:
    """Tokenize one conversation, whose last answer is taught; ValueError beyond `max_length` tokens."""
    whole = encode_conversation(tokenizer, chat.messages, ended=chat.ended)
    if len(whole.ids) > max_length:
        raise ValueError(
            f"{chat.where} has {len(whole.ids)} tokens, over the limit of {max_length}; shorten it or raise "
            "--max-length"
        )
    return Conversation(whole.ids, whole.answers[-1:])


def read_conversations(
    tokenizer: PreTrainedTokenizerBase, files: Sequence[str], limit: int
) -> tuple[list[Conversation], dict[str, int]]:
    """Tokenize files for an adapter, all answers of which are taught; what is past `limit` tokens is cut off.

    Answers of fewer than four tokens teach nothing and are left out.
    Returns the conversations, and how many answers were cut (`answers_cut`), left out for lying behind the limit
    (`answers_left_out`) or for being short (`answers_short`), and conversations left without any (`left_out`).
    ValueError names the file, line and field at fault, or says that nothing is left.
    """
    kept: list[Conversation] = []
    lost = dict.fromkeys(("answers_cut", "answers_left_out", "answers_short", "left_out"), 0)
    for chat in (chat for file in files for chat in read_chats(file)):
        whole = encode_conversation(tokenizer, chat.messages, ended=chat.ended)
        within = [(first, min(end, limit)) for first, end in whole.answers if first < limit]
        answers = tuple(span for span in within if span[1] - span[0] >= LEAST_ANSWER)
        lost["answers_left_out"] += len(whole.answers) - len(within)
        lost["answers_short"] += len(within) - len(answers)
        lost["answers_cut"] += sum(end > limit for first, end in whole.answers if (first, limit) in answers)
        lost["left_out"] += not answers
        if answers:
            kept.append(Conversation(whole.ids[:limit], answers))
    cut, behind, short, out = lost.values()
    told = f"of the answers, {cut} end at the limit of {limit} tokens, {behind} lie behind it and {short} have fewer "
    told += f"than {LEAST_ANSWER} tokens"
    if not kept:
        raise ValueError(f"nothing can be learnt from the data files: {told}; --max-length sets the limit")
    if any(lost.values()):
        sys.stderr.write(f"{told}; {out} conversations are left out, {len(kept)} are kept\n")
    return kept, lost


@dataclass(frozen=True, slots=True)
class Collator:
    """Right-pads a batch. With `block_size` each row's padding up to a multiple of it counts in the loss (section 3.2).

    Returns a dict of long tensors: `input_ids` [R, L] and `labels` [R, L], where `labels[:, i]` is the token at
    i + 1 if that belongs to the response and -100 otherwise: the shift is already made. L is a multiple of the block
    size.
    """

    end_id: int
    block_size: int = 1

    def __call__(self, numbered: Sequence[Numbered]) -> dict[str, Tensor]:
        examples = [example for _, example in numbered]
        blocks = [-(-len(example.ids) // self.block_size) for example in examples]
        length = max(blocks) * self.block_size
        input_ids = torch.full((len(examples), length), self.end_id)
        labels = torch.full((len(examples), length), IGNORED)
        for row, example in enumerate(examples):
            ids = torch.tensor(example.ids)
            input_ids[row, : len(ids)] = ids
            first = example.answers[0][0]
            ended = example.ids[-1] == self.end_id  # else it was cut off
            last = blocks[row] * self.block_size if ended else len(ids)
            labels[row, first - 1 : last - 1] = input_ids[row, first:last]
        return {"input_ids": input_ids, "labels": labels}
