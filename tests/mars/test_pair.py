"""The recipe of the pair: its data, both stages, and going on after an interruption."""

import json
from pathlib import Path

import pytest

from mars.checkpoint import load_checkpoint
from mars.checkpoint.adapter import load_adapter
from mars.training.__main__ import main
from mars.training.data import read_chats
from mars.training.pair import loops


def test_repetition_is_a_loop() -> None:
    assert not any(map(loops, ("An oak is a tree.", "- oak\n- elm\n- ash", "")))
    assert all(map(loops, ("Say it again.\nYes.\nSay it again.", "a b c d " * 9)))


def test_the_recipe_makes_both_adapters(
    tiny_folder: Path, tmp_path: Path, one_thread: None, capsys: pytest.CaptureFixture[str]
) -> None:
    chats = tmp_path / "chats.jsonl"
    turns = [{"role": "user", "content": "Name a tree."}, {"role": "assistant", "content": "An oak is one."}]
    chats.write_text(json.dumps({"messages": turns, "ended": False, "question": "Why?"}) + "\n")
    output = tmp_path / "pair"
    words = f"pair --base {tiny_folder} --output {output} --data {chats} --problems 6 --self-prompts 0 --sft-rank 2"
    words += " --rank 3 --masks 3 --anchors 4 --batch-size 2 --places 3 --max-length 90"
    words += f" --sft-minutes 0.001 --mars-minutes 0.001 --prompts {chats}:question"
    # The answers of a random model never end, so those of stage 1 are given.
    output.mkdir()
    (output / "mars.jsonl").write_text((json.dumps({"messages": turns}) + "\n") * 3)
    assert main([*words.split(), "--prompts", "no/such.txt"]) == 2
    assert not (output / "sft").exists(), "it is read before anything is trained"
    for _ in range(40):  # calls, each of which pauses after a step or ends
        assert main([*words.split(), "--pause-after", "0.00001"]) == 0
        if "paused" not in capsys.readouterr().err:
            break
    assert [chat.ended for chat in read_chats(output / "sft.jsonl")] == [True] * 6 + [False]
    sft, mars = (load_checkpoint(output / stage, dtype="float32", device="cpu") for stage in ("sft", "mars"))
    assert (sft.supports_masks, mars.supports_masks, mars.block_size) == (False, True, 4)
    config = json.loads((output / "mars" / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"]) == (3, 6), "its own part"
    assert {len(pair.a_SI) for pair in load_adapter(output / "mars").layers[0].values()} == {5}, "with that of stage 1"
    before = (output / "mars" / "adapter_model.safetensors").stat().st_mtime_ns
    assert main(words.split()) == 0
    assert f"{output / 'sft'} is there\n{output / 'mars'} is there\n" in capsys.readouterr().err
    assert main([*words.split(), "--sft-rank", "3"]) == 2
    assert "sft_rank must be 2 as before, got 3" in capsys.readouterr().err
    assert (output / "mars" / "adapter_model.safetensors").stat().st_mtime_ns == before, "nothing is done twice"
