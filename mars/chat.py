"""Chat turns to token ids. Control tokens written by a user stay ordinary text."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

MASK_TOKEN = "<|mask|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
PAD_TOKEN = "<|endoftext|>"

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""Qwen's ChatML turns, without a default system message."""

# The splitting of special tokens is a state of the tokenizer, not of the call: of two threads that encode at once, one
# would open no turn, or let a user open one.
_ENCODING = threading.RLock()


def encode_prompt(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Token ids of one user turn and the opening of the assistant's."""
    return encode_messages(tokenizer, [{"role": "user", "content": text}])


def encode_messages(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, str]]) -> list[int]:
    """Token ids of the turns through the tokenizer's chat template, opened for the assistant's answer.

    The template is rendered around placeholders, and each content is encoded on its own with special tokens split,
    so that nothing inside a content can open or close a turn. Threads may encode at the same time.

    Raises:
        ValueError: the tokenizer has no chat template, or it refuses these turns.
    """
    if not tokenizer.chat_template:
        raise ValueError("the tokenizer has no chat template; use the tokenizer of an instruction-tuned checkpoint")
    holders = [f"\ue000{index}\ue001" for index in range(len(messages))]
    turns = [{"role": m["role"], "content": holder} for m, holder in zip(messages, holders, strict=True)]
    try:
        rest = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    except TemplateError as error:
        if type(error) is not TemplateError:  # a fault of the template, which refuses with this very class
            raise
        raise ValueError(f"the chat template of this model refuses these turns: {error}") from error
    ids: list[int] = []
    with _ENCODING:
        for message, holder in zip(messages, holders, strict=True):
            before, _, rest = rest.partition(holder)
            ids += tokenizer(before, add_special_tokens=False)["input_ids"]
            ids += encode_text(tokenizer, message["content"])
        return ids + tokenizer(rest, add_special_tokens=False)["input_ids"]


def encode_text(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Token ids of plain text, control tokens in it split like any other characters."""
    printable = text.encode("utf-8", "replace").decode("utf-8")
    with _ENCODING:
        return tokenizer(printable, add_special_tokens=False, split_special_tokens=True)["input_ids"]
