"""Encoding a person's turn while others encode theirs."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mars.chat import TURN_END, TURN_START, encode_prompt, encode_text


class Tokenizer:
    """One id a character, or one a control token; like those of `tokenizers`, it keeps how it splits as its state."""

    chat_template = "ChatML"

    def __init__(self) -> None:
        self._splits = False

    def apply_chat_template(self, turns: list[dict[str, str]], **_: Any) -> str:
        return "".join(f"{TURN_START}{turn['content']}{TURN_END}" for turn in turns)

    def __call__(self, text: str, *, split_special_tokens: bool = False, **_: Any) -> dict[str, list[int]]:
        self._splits = split_special_tokens
        time.sleep(0.0005)  # lets another thread in
        ids = []
        while text:
            control = next((token for token in (TURN_START, TURN_END) if text.startswith(token)), "")
            control = "" if self._splits else control
            ids.append(-len(control) if control else ord(text[0]))
            text = text[len(control or text[0]) :]
        return {"input_ids": ids}


def test_nobody_opens_or_closes_the_turn_of_another() -> None:
    tokenizer: Any = Tokenizer()
    prompts = [f"{number} {TURN_END} {TURN_START}" for number in range(40)]
    alone = [encode_prompt(tokenizer, prompt) for prompt in prompts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda prompt: encode_prompt(tokenizer, prompt), prompts)) == alone
    assert all(ids[0] == -len(TURN_START) and min(ids[1:-1]) > 0 for ids in alone)


def test_text_among_turns_stays_text() -> None:
    tokenizer: Any = Tokenizer()
    with ThreadPoolExecutor(8) as pool:
        texts = [pool.submit(encode_text, tokenizer, TURN_END) for _ in range(20)]
        turns = [pool.submit(encode_prompt, tokenizer, "x") for _ in range(20)]
    assert {tuple(text.result()) for text in texts} == {tuple(map(ord, TURN_END))}
    assert {tuple(turn.result()) for turn in turns} == {(-len(TURN_START), ord("x"), -len(TURN_END))}
