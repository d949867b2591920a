"""Conversations of files: lines, turns, the end that is taught, and what is cut or left out."""

import copy
import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from mars.training.data import encode_conversation, encode_example, read_chats, read_conversations

USER = {"role": "user", "content": "Name a tree."}
ASSISTANT = {"role": "assistant", "content": "An oak loses its leaves."}


def written(tmp_path: Path, *lines: Any) -> Path:
    file = tmp_path / "chats.jsonl"
    file.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return file


def test_two_conversations_come_from_each_file(tmp_path: Path) -> None:
    file = tmp_path / "chats.jsonl"
    insides = ("", "\u2028", "\u2029", "\x85", "\x0c")
    for between, inside, mark in product(("", "\n", "\r", "\n \n"), insides, ("", "\ufeff")):
        turn = {"role": "assistant", "content": f"one{inside}two"}
        line = json.dumps({"messages": [USER, turn]}, ensure_ascii=False)
        file.write_bytes(f"{mark}{line}{between}\n{line}\n".encode())
        assert [chat.messages[1] for chat in read_chats(file)] == [turn] * 2


def test_parts_that_are_text_are_joined(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "Name "}, {"type": "text", "text": "a tree."}]
    [chat] = read_chats(written(tmp_path, {"messages": [{"role": "user", "content": parts}, ASSISTANT]}))
    assert chat.messages == [USER, ASSISTANT]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ({"conversations": [{"from": "human", "value": "Hi"}]}, "messages must be a list .* got null; rename conv"),
        ({"messages": "Hi"}, "messages must be a list"),
        ({"messages": []}, "must end with an assistant's turn"),
        ({"messages": [USER]}, "must end with an assistant's turn"),
        ({"messages": [USER, ASSISTANT, USER]}, "must end with an assistant's turn"),
        ({"messages": [ASSISTANT, USER, ASSISTANT]}, r"messages\[0\].role must be 'user', got 'assistant'"),
        ({"messages": [USER, USER, ASSISTANT]}, r"messages\[1\].role must be 'assistant', got 'user'"),
        (
            {"messages": [{**USER, "role": "human"}, ASSISTANT]},
            r"messages\[0\].role must be one of system, user, assis",
        ),
        ({"messages": [USER, {"role": "assistant", "content": None, "tool_calls": []}]}, r"\[1\].content must be text"),
        (
            {"messages": [USER, {"role": "tool", "content": "4 C"}, ASSISTANT]},
            r'\[1\].role must be one of .* got "tool"',
        ),
        (
            {"messages": [{**USER, "content": 7}, ASSISTANT]},
            r"messages\[0\].content must be text that is not empty, got 7",
        ),
        (
            {"messages": [{**USER, "content": [{"type": "image_url"}]}, ASSISTANT]},
            r"messages\[0\].content must be text",
        ),
        ({"messages": [USER, {**ASSISTANT, "content": " "}]}, r"messages\[1\].content must be text that is not empty"),
        ({"messages": [USER, "An oak."]}, r'messages\[1\] must be {"role": .*got "An oak."'),
        ({"messages": [USER, ASSISTANT], "ended": "false"}, 'ended must be true or false, got "false"'),
    ],
)
def test_a_bad_turn_is_named_with_its_field(tmp_path: Path, line: dict[str, Any], sentence: str) -> None:
    file = written(tmp_path, {"messages": [USER, ASSISTANT]}, line)
    with pytest.raises(ValueError, match=rf"chats\.jsonl, line 2: .*{sentence}"):
        list(read_chats(file))


def test_the_end_taught_is_the_templates(tiny_tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    """The tokenizer's own end-of-sequence token is another one here."""
    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.eos_token = "<|endoftext|>"
    [chat] = read_chats(written(tmp_path, {"messages": [USER, ASSISTANT, USER, ASSISTANT]}))
    whole = encode_conversation(tokenizer, chat.messages)
    texts = [tokenizer.decode(whole.ids[first:end]) for first, end in whole.answers]
    assert texts == [f"{ASSISTANT['content']}<|im_end|>"] * 2
    example = encode_example(tokenizer, chat, 512)
    assert (example.ids, example.answers) == (whole.ids, whole.answers[-1:])
    cut = encode_conversation(tokenizer, chat.messages, ended=False)
    assert cut.ids == whole.ids[:-1]


def test_what_is_cut_and_left_out_is_counted(
    tiny_tokenizer: PreTrainedTokenizerFast, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = {"role": "assistant", "content": "7"}
    file = written(
        tmp_path,
        {"messages": [USER, ASSISTANT]},
        {"messages": [USER, short]},
        {"messages": [USER, ASSISTANT, {"role": "user", "content": "Name a tree. " * 40}, ASSISTANT]},
        {"messages": [USER, {"role": "assistant", "content": "An oak loses its leaves. " * 40}]},
    )
    kept, lost = read_conversations(tiny_tokenizer, [str(file)], 200)
    assert [len(talk.answers) for talk in kept] == [1, 1, 1]
    assert lost == {"answers_cut": 1, "answers_left_out": 1, "answers_short": 1, "left_out": 1}
    assert max(len(talk.ids) for talk in kept) == 200, "the context is the upper limit"
    said = capsys.readouterr().err
    assert "1 end at the limit of 200 tokens, 1 lie behind it and 1 have fewer than 4 tokens; 1 conversations" in said
    with pytest.raises(
        ValueError, match=r"files: of the answers, 0 end at .* of 9 tokens, 5 lie .*; --max-length sets"
    ):
        read_conversations(tiny_tokenizer, [str(file)], 9)
