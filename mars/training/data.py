"""Conversations to token sequences: synthetic problems and recall drills, or any chat JSONL."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from mars.chat import encode_messages, encode_text
from mars.tasks import TASKS, sample
from mars.tasks.base import ANIMALS, CITIES, COLORS, FRUITS, ITEMS, PEOPLE, PLACES, TOOLS, VEGETABLES

IGNORED = -100
_WORDS = (*PEOPLE, *CITIES, *ITEMS, *COLORS, *ANIMALS, *PLACES, *FRUITS, *VEGETABLES, *TOOLS)
_LETTERS = "ABCDEFGH"


@dataclass(frozen=True, slots=True)
class Example:
    """Token ids of a conversation; the last `response_length` of them are the response, end of turn included."""

    ids: tuple[int, ...]
    response_length: int


def synthetic_conversations(count: int, data_seed: int, drill_share: float = 0.0) -> Iterator[list[dict[str, str]]]:
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


def drill(seed: int) -> list[dict[str, str]]:
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


def read_conversations(path: Path) -> Iterator[list[dict[str, str]]]:
    """Conversations of a chat JSONL: `{"messages": [{"role": …, "content": …}, …]}` a line, ending with the assistant.

    Raises:
        ValueError: names the file, the line and what is wrong with it.
    """
    if not path.is_file():
        raise ValueError(f"data file {path} does not exist")
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield _conversation(line, f"{path}, line {number}")


def _conversation(line: str, where: str) -> list[dict[str, str]]:
    try:
        messages = json.loads(line).get("messages")
    except (ValueError, AttributeError):
        messages = None
    if not isinstance(messages, list) or len(messages) < 2 or not all(map(_is_turn, messages)):
        raise ValueError(f'{where}: expected {{"messages": [{{"role": …, "content": …}}, …]}} with at least two turns')
    if messages[-1]["role"] != "assistant":
        raise ValueError(f"{where}: the last turn must be the assistant's, got {messages[-1]['role']!r}")
    return messages


def _is_turn(message: Any) -> bool:
    return isinstance(message, dict) and all(isinstance(message.get(key), str) for key in ("role", "content"))


def encode_example(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[dict[str, str]], max_length: int, where: str = "conversation"
) -> Example:
    """Tokenize one conversation; its last turn is the response.

    Raises:
        ValueError: the sequence is longer than `max_length` tokens.
    """
    prompt = encode_messages(tokenizer, messages[:-1])
    response = [*encode_text(tokenizer, messages[-1]["content"]), end_of_turn(tokenizer)]
    length = len(prompt) + len(response)
    if length > max_length:
        raise ValueError(
            f"{where} has {length} tokens, over the limit of {max_length}; shorten it or raise --max-length"
        )
    return Example((*prompt, *response), len(response))


def end_of_turn(tokenizer: PreTrainedTokenizerBase) -> int:
    """The id that ends a response, which also pads the last block.

    Raises:
        ValueError: the tokenizer has no end-of-sequence token.
    """
    if tokenizer.eos_token_id is None:
        raise ValueError("the tokenizer has no end-of-sequence token; set eos_token in tokenizer_config.json")
    return int(tokenizer.eos_token_id)


@dataclass(frozen=True, slots=True)
class Collator:
    """Right-pads a batch. With `block_size` each row's padding up to a multiple of it counts in the loss (section 3.2).

    Returns a dict of long tensors: `input_ids` [R, L] and `labels` [R, L], where `labels[:, i]` is the token at
    i + `shift` if that belongs to the response and -100 otherwise: the right shift is already made. L is a multiple of
    the block size.
    """

    end_id: int
    block_size: int = 1
    shift: int = 1

    def __call__(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        blocks = [-(-len(example.ids) // self.block_size) for example in examples]
        length = max(blocks) * self.block_size
        input_ids = torch.full((len(examples), length), self.end_id)
        labels = torch.full((len(examples), length), IGNORED)
        for row, example in enumerate(examples):
            ids = torch.tensor(example.ids)
            input_ids[row, : len(ids)] = ids
            first = len(ids) - example.response_length
            last = blocks[row] * self.block_size
            labels[row, first - self.shift : last - self.shift] = input_ids[row, first:last]
        return {"input_ids": input_ids, "labels": labels}
