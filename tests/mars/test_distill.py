"""Conversations that a model writes itself: complete lines, nothing twice, resumable."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mars.checkpoint import Checkpoint
from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.metrics import output_ids
from mars.training.__main__ import main
from mars.training.distill import OPENINGS, Request, Writer, distill, read_done, requests
from mars.training.settings import DistillSettings


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps({"question": f"Add {n} and 4."}) + "\n" for n in range(5)))
    return file


def test_prompts_are_read_from_files(prompts: Path, tmp_path: Path) -> None:
    plain = tmp_path / "prompts.txt"
    plain.write_text("How many?\n\nWhy?\n")
    settings = DistillSettings(output="o", prompts=(f"{prompts}:question", str(plain)), self_prompts=2)
    found = list(requests(settings))
    assert [request.prompt for request in found[4:]] == ["Add 4 and 4.", "How many?", "Why?", None, None]
    assert found[-1].opening == OPENINGS[1]
    assert len({request.name for request in found}) == 9
    with pytest.raises(ValueError, match="line 1: prompt must be text that is not empty"):
        list(requests(DistillSettings(output="o", prompts=(str(prompts),))))


def test_answers_are_the_models_own_once_each(
    tiny: Checkpoint, tiny_folder: Path, prompts: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.jsonl"
    settings = DistillSettings(
        output=str(output), prompts=(f"{prompts}:question",), places=3, max_new_tokens=6, max_prompt_tokens=64
    )
    assert distill(str(tiny_folder), settings) == 5
    before = output.read_text()
    lines = [json.loads(line) for line in before.splitlines()]
    assert {line["name"] for line in lines} == {f"prompts:{n}" for n in range(5)}
    for asked, said in (line["messages"] for line in lines):
        own = DECODERS["autoregressive"](
            tiny.engine, [tiny.encode(asked["content"])], DecodingSettings(max_new_tokens=6)
        )
        assert said["content"] == tiny.decode(output_ids(own))
    # A line that a kill cut in half is written again, the others are kept.
    output.write_text(before[:-20])
    assert distill(str(tiny_folder), settings) == 5
    assert sorted(output.read_text().splitlines()) == sorted(before.splitlines())
    with pytest.raises(ValueError, match=r"checkpoint must be .* goes on as it began; start anew in another folder"):
        distill("assets/checkpoints/draft-ar", settings)
    with pytest.raises(ValueError, match="max_new_tokens must be 6 as before, got 7"):
        distill(str(tiny_folder), replace(settings, max_new_tokens=7))


def test_the_last_answer_says_whether_it_ended(tiny: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    most = tiny.engine.context_length - 8
    settings = DistillSettings(output="o", prompts=("x",), second_turns=1, max_prompt_tokens=most, max_new_tokens=most)
    assert Writer(tiny, settings).write(Request("a", 0, "one two three four five six")) is None, "it has no room"
    said = iter([("Hi", True), ("Why is that?", True), ("Because", False)])
    monkeypatch.setattr(Writer, "_decode", lambda *_: next(said))
    line = Writer(tiny, settings).write(Request("a", 0, "Hello")) or {}
    assert (len(line["messages"]), line["messages"][-1]["content"], line["ended"]) == (4, "Because", False)


def test_finished_conversations_stay(tmp_path: Path) -> None:
    """One with a line separator in its answer too; a half-written last line is cut off."""
    output = tmp_path / "out.jsonl"
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "one\u2028two"}]
    good = json.dumps({"name": "a:1", "messages": turns, "ended": True}, ensure_ascii=False)
    output.write_text(good + "\n" + good[:20], encoding="utf-8")
    assert read_done(output) == ({"a:1"}, {"Hi"})
    assert output.read_text(encoding="utf-8") == good + "\n"
    output.write_text("{}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 1: messages must be a list"):
        read_done(output)
    assert output.read_text(encoding="utf-8") == "{}\n", "what is not understood is left alone"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "nothing to write"),
        ({"self_prompts": -1}, "self_prompts must be >= 0"),
        ({"self_prompts": 1, "places": 0}, "places must be >= 1"),
        ({"self_prompts": 1, "second_turns": 2.0}, "second_turns must be between 0 and 1"),
        ({"self_prompts": 1, "temperature": -0.1}, "temperature must be >= 0"),
        ({"self_prompts": 1, "seed": 2**31}, "seed must be between 0 and 1048575"),
    ],
)
def test_wrong_settings_are_refused(options: dict[str, float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        DistillSettings(output="o", **options)  # type: ignore[arg-type]


def test_it_says_what_is_missing(tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--checkpoint", str(tiny_folder), "--output", str(tmp_path / "o.jsonl"), "--prompts", "no.txt"]
    assert main(["distill", *words]) == 2
    assert "file no.txt does not exist" in capsys.readouterr().err
