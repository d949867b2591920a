"""Chat turns to token ids: those of `apply_chat_template`, except that no text of a user becomes a control token."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from jinja2 import Environment
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

MASK_TOKEN = "<|mask|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
PAD_TOKEN = "<|endoftext|>"
ROLES = ("system", "developer", "user", "assistant", "tool")

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""Qwen's ChatML turns, without a default system message."""

TEMPLATE_SECONDS = 1.0
_MOST_DIGITS = 6
_WIDE = re.compile(r"[%{].*\d{7}", re.DOTALL)
TEMPLATE_ROOM = 65_536  # characters that a template may add to four times its contents

# Noncharacters of Unicode, which no text holds. MARK stands before what only looks like a control token, and GAP breaks
# what could become one. OPEN and CLOSE enclose the number of a control token that the template wrote.
_MARK, _GAP, _OPEN, _CLOSE = "\ufdd0", "\ufdd1", "\ufdd2", "\ufdd3"
_NEXT = "\ufdd4"  # in place of a turn that is still to be written
_NONCHARACTERS = re.compile(f"[{_MARK}{_GAP}{_OPEN}{_CLOSE}]")
_LOOKS_LIKE_CONTROL = re.compile(r"<[^<>\s'\"{}]{1,40}>|\[/?[A-Z_]{1,30}\]")


def encode_prompt(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Token ids of one user turn and the opening of the assistant's."""
    return encode_messages(tokenizer, [{"role": "user", "content": text}])


def encode_messages(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, str]]) -> list[int]:
    """Token ids of the turns through the tokenizer's chat template, opened for the assistant's answer.

    They are those of `apply_chat_template`; but a control token in a content, or one that a content makes together with
    the text beside it, is encoded as ordinary text. ValueError where the tokenizer has no chat template, it refuses
    these turns or takes too long for them, or it changes a content so that its control tokens cannot be told from the
    template's.
    """
    for message in messages:
        if message["role"] not in ROLES:
            raise ValueError(f"role must be one of {', '.join(ROLES)}, got {message['role']!r}")
    roles = [message["role"] for message in messages]
    contents = [_valid(message["content"]) for message in messages]
    control = _control(tokenizer)
    rendered = _render(tokenizer, roles, contents)
    ids = _ids(tokenizer, rendered)
    if not any(map(control.may_arise_from, contents)):
        return ids
    own = control.among(_ids(tokenizer, _render(tokenizer, roles, [control.broken(content) for content in contents])))
    if control.among(ids) == own:
        return ids
    marked = _render(tokenizer, roles, [control.marked(content) for content in contents])
    if _NONCHARACTERS.sub("", marked) == rendered and not any(map(_NONCHARACTERS.search, contents)):
        ids = control.encode_marked(marked)
        if control.among(ids) == own:
            return ids
    raise ValueError(
        "a turn holds a control token of this model as text, and the chat template changes that turn, so that it cannot"
        " be told from the template's own: leave the control token out"
    )


def encode_opening(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, str]]) -> list[int]:
    """Token ids of the turns and of what the template puts before a user's next one, for a model to write that.

    ValueError where the template refuses these turns, or does not show what stands before a turn.
    """
    control, roles = _control(tokenizer), [*(message["role"] for message in messages), "user"]
    contents = [control.marked(_valid(message["content"])) for message in messages]
    before, turn, _ = _render(tokenizer, roles, [*contents, _NEXT], opened=False).rpartition(_NEXT)
    if not turn:
        raise ValueError("the chat template of this model does not show where a user's turn begins")
    return control.encode_marked(before) if any(contents) else _ids(tokenizer, before)


def encode_text(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Token ids of plain text, control tokens in it split like any other characters."""
    text, control = _valid(text), _control(tokenizer)
    return control.encode_plain(text) if control.within(text) else _ids(tokenizer, text)


def encode_beginning(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """`encode_text` of the beginning of a text, behind the token that the tokenizer puts there, if it does."""
    begins = tokenizer.bos_token_id is not None and tokenizer.bos_token_id in tokenizer("")["input_ids"][:1]
    return [*([int(tokenizer.bos_token_id)] if begins else []), *encode_text(tokenizer, text)]


def end_of_turn(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The token ids that end an answer: what the template puts behind an assistant's turn, to its first control token.

    Where the template puts none there, it is the end-of-sequence token. ValueError where the tokenizer has neither.
    """
    if tokenizer.chat_template:
        text = _render(tokenizer, ["user", "assistant"], [_MARK, _GAP], opened=False)
        _, answer, behind = text.rpartition(_GAP)
        found = _control(tokenizer).pattern.search(behind)
        if answer and found is not None:
            return _ids(tokenizer, behind[: found.end()])
    if tokenizer.eos_token_id is None:
        raise ValueError(
            "neither the chat template nor eos_token says what ends an answer: set eos_token in tokenizer_config.json"
        )
    return [int(tokenizer.eos_token_id)]


def check_template(tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise ValueError where a control token of the chat template is in the vocabulary and is not read as one token."""
    if not tokenizer.chat_template:
        return
    source = tokenizer.get_chat_template()
    _check_numbers(source)
    with suppress(ValueError):  # a template may refuse any turns; these are a sample
        source += _render(tokenizer, ["user", "assistant", "user"], ["a", "b", "c"])
    for text in sorted(set(_LOOKS_LIKE_CONTROL.findall(source))):
        number = tokenizer.get_vocab().get(text)
        if number is not None and number not in _ids(tokenizer, text):
            raise ValueError(
                f"the chat template writes {text}, token {number} of the vocabulary, but the tokenizer reads it as "
                "ordinary text: mark it as a control token (type 3 in a GGUF file, added_tokens in tokenizer.json)"
            )


@dataclass(frozen=True)
class _Control:
    """The control tokens of a tokenizer: the added ones, without white space, which is text."""

    ids: Mapping[str, int]
    tokenizer: Tokenizer
    pattern: re.Pattern[str]  # any of them, in any case: a template may change it
    exact: re.Pattern[str]  # one as it is read, perhaps behind a mark
    first: re.Pattern[str]  # the first character of any
    starts: tuple[str, ...]  # what any begins with, not whole, and what it ends with
    ends: tuple[str, ...]
    read: frozenset[int]  # without the unknown token, which other text gives too
    renamed: list[Tokenizer]  # made when it is first used: the same with names for the control tokens that no text has

    def within(self, text: str) -> bool:
        """Whether there is a control token in `text`, perhaps in another spelling of it."""
        return bool(self.pattern.search(text) or self.pattern.search(self._normal(text)))

    def may_arise_from(self, content: str) -> bool:
        """Whether a template could make a control token of a content, or of it and the text before or behind it."""
        return bool(self.first.search(self._normal(content))) or content.startswith(self.ends)

    def broken(self, content: str) -> str:
        """`content` with gaps, so that nothing makes a control token of it."""
        normal = self._normal(content)
        if len(self.first.findall(normal)) != len(self.first.findall(content)):
            content = normal
        return _GAP * content.startswith(self.ends) + self.first.sub(f"{_GAP}\\g<0>{_GAP}", content)

    def marked(self, content: str) -> str:
        """`content` with a mark before each control token, and a gap where the text beside it may complete one."""
        before, behind = _GAP * content.startswith(self.ends), _GAP * content.endswith(self.starts)
        return before + self.pattern.sub(f"{_MARK}\\g<0>", content) + behind

    def _normal(self, text: str) -> str:
        return text if self.tokenizer.normalizer is None else str(self.tokenizer.normalizer.normalize_str(text))

    def encode_marked(self, text: str) -> list[int]:
        """The ids of a rendered text in which a mark stands before what only looks like a control token."""
        named = self.exact.sub(lambda one: one[0] if one[0].startswith(_MARK) else _named(self.ids[one[0]]), text)
        return self.encode_plain(re.sub(f"[{_MARK}{_GAP}]", "", named))

    def encode_plain(self, text: str) -> list[int]:
        """The ids of a text whose control tokens have the other names."""
        if not self.renamed:
            self.renamed.append(_rename_control(self.tokenizer, self.ids))
        return list(self.renamed[0].encode(text, add_special_tokens=False).ids)

    def among(self, ids: Sequence[int]) -> list[int]:
        """Those of the ids that are control tokens."""
        return [number for number in ids if number in self.read]


_controls: WeakKeyDictionary[PreTrainedTokenizerBase, tuple[object, _Control]] = WeakKeyDictionary()


def _control(tokenizer: PreTrainedTokenizerBase) -> _Control:
    """The control tokens of `tokenizer`, looked up again once it has others."""
    added = {token.content: number for number, token in tokenizer.added_tokens_decoder.items()}
    if tokenizer not in _controls or _controls[tokenizer][0] != added:
        ids = {token: number for token, number in added.items() if token.strip()}
        _controls[tokenizer] = added, _find_control(tokenizer, ids)
    return _controls[tokenizer][1]


def _find_control(tokenizer: PreTrainedTokenizerBase, ids: Mapping[str, int]) -> _Control:
    nothing = "(?!)"
    exact = "|".join(map(re.escape, sorted(ids, key=len, reverse=True))) or nothing
    return _Control(
        ids=ids,
        tokenizer=tokenizer.backend_tokenizer,
        pattern=re.compile(exact, re.IGNORECASE),
        exact=re.compile(f"{_MARK}?(?:{exact})"),
        first=re.compile("|".join(map(re.escape, {token[0] for token in ids})) or nothing, re.IGNORECASE),
        starts=tuple({token[:size] for token in ids for size in range(1, len(token))}),
        ends=tuple({token[size:] for token in ids for size in range(1, len(token))}),
        read=frozenset(ids.values()) - {tokenizer.unk_token_id},
        renamed=[],
    )


def _rename_control(tokenizer: Tokenizer, ids: Mapping[str, int]) -> Tokenizer:
    """A copy of `tokenizer` in which each control token has a name that no text has, and its id."""
    described = json.loads(tokenizer.to_str())
    names = {token: _named(number) for token, number in ids.items()}
    for token in described["added_tokens"]:
        if token["content"] in names:
            token.update(content=names[token["content"]], normalized=False)
    model = described["model"]
    if isinstance(model["vocab"], dict):
        model["vocab"] = {names.get(token, token): number for token, number in model["vocab"].items()}
    else:
        model["vocab"] = [[names.get(token, token), score] for token, score in model["vocab"]]
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    if "merges" in model:  # those that would make a control token's old name
        model["merges"] = [pair for pair in model["merges"] if names.keys().isdisjoint({*pair, "".join(pair)})]
    described["post_processor"] = None
    renamed = Tokenizer.from_str(json.dumps(described))
    if any(renamed.token_to_id(names[token]) != number for token, number in ids.items()):
        raise ValueError("the added tokens in tokenizer.json have other ids than the tokenizer gives them")
    return renamed


def _named(number: int) -> str:
    return f"{_OPEN}{number}{_CLOSE}"


def _valid(text: str) -> str:
    """`text` without halves of surrogate pairs, which no tokenizer takes."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])  # lengths are checked elsewhere


def _render(
    tokenizer: PreTrainedTokenizerBase, roles: Sequence[str], contents: Sequence[str], opened: bool = True
) -> str:
    if not tokenizer.chat_template:
        raise ValueError("the tokenizer has no chat template; use the tokenizer of an instruction-tuned checkpoint")
    turns = [{"role": role, "content": content} for role, content in zip(roles, contents, strict=True)]
    try:
        _check_numbers(tokenizer.get_chat_template())
        with _bounded(TEMPLATE_SECONDS):
            text = str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=opened))
    except Exception as error:  # a template is a program of its own: it may raise anything
        raise ValueError(f"the chat template of this model refuses these turns: {error}") from error
    if len(text) > TEMPLATE_ROOM + 4 * sum(map(len, contents)):
        raise ValueError(f"the chat template of this model makes {len(text)} characters of these turns: too many")
    return text


@lru_cache(maxsize=16)
def _check_numbers(source: str) -> None:
    """Raise ValueError for a template with powers or long numbers: one step of it could take all time and memory."""
    for _, kind, value in Environment(autoescape=True).lex(source):
        wide = kind == "string" and _WIDE.search(value)  # a width of %d or {:d}
        if wide or (kind, value) == ("operator", "**") or (kind == "integer" and len(value) > _MOST_DIGITS):
            raise ValueError(f"it computes with {value[:20]}")


@contextmanager
def _bounded(seconds: float) -> Iterator[None]:
    """Raises TimeoutError inside the code of a template that runs longer, whatever it loops over."""
    end, before = time.monotonic() + seconds, sys.gettrace()

    def watch(frame: FrameType, _event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename not in ("<template>", "<unknown>"):
            return None
        if time.monotonic() > end:
            raise TimeoutError(f"it takes longer than {seconds:g} s")
        return watch

    sys.settrace(watch)
    try:
        yield
    finally:
        sys.settrace(before)
