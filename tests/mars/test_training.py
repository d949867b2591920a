import json
import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

from mars.chat import MASK_TOKEN
from mars.checkpoint import load_checkpoint
from mars.training import run
from mars.training.__main__ import main
from mars.training.data import synthetic_conversations
from mars.training.run import StageTrainer
from mars.training.start import add_mask_token, train_tokenizer
from mars.training.trainer import last_saved_step
from tests.forked import LIMIT, forked
from tests.mars.tiny import edit

SMALL = ["--precision", "fp32", "--batch-size", "2", "--learning-rate", "1e-3", "--max-length", "48"]


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("data") / "chats.jsonl"
    turns = [
        [{"role": "user", "content": f"Say {n}."}, {"role": "assistant", "content": f"{n}, as {n} as can be."}]
        for n in range(12)
    ]
    file.write_text("\n".join(json.dumps({"messages": turn}) for turn in turns) + "\n\n")
    return file


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny checkpoint in the format of the Hub, with no mask token."""
    folder = tmp_path_factory.mktemp("base")
    tokenizer = train_tokenizer(["user assistant Say as can be."] * 4, 300, 128)
    tokenizer.save_pretrained(folder)
    config = json.loads((folder / "tokenizer.json").read_text())
    config["added_tokens"] = [token for token in config["added_tokens"] if token["content"] != MASK_TOKEN]
    del config["model"]["vocab"][MASK_TOKEN]
    shift = sorted(config["model"]["vocab"].items(), key=lambda item: item[1])
    config["model"]["vocab"] = {token: index for index, (token, _) in enumerate(shift)}
    for token in config["added_tokens"]:
        token["id"] = config["model"]["vocab"][token["content"]]
    (folder / "tokenizer.json").write_text(json.dumps(config))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    del settings["mask_token"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(shift),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            intermediate_size=16,
            max_position_embeddings=64,
            eos_token_id=config["model"]["vocab"]["<|im_end|>"],
            bos_token_id=None,
        )
    ).save_pretrained(folder)
    return folder


def test_both_stages_on_a_foreign_checkpoint_and_chats(base: Path, chats: Path, tmp_path: Path) -> None:
    data = ["--data", str(chats), *SMALL]
    assert main(["sft", "--checkpoint", str(base), "--output", str(tmp_path / "sft"), *data]) == 0
    start = ["--checkpoint", str(tmp_path / "sft"), "--block-size", "4"]
    assert main(["mars", *start, "--output", str(tmp_path / "mars"), *data]) == 0
    record = json.loads((tmp_path / "mars" / "mars.json").read_text())
    assert (record["stage"], record["block_size"], record["sft_loss"]) == ("mars", 4, True)
    assert record["settings"]["learning_rate"] == 1e-3
    assert record["measured"]["examples"] == 12
    assert record["started_from"]["stage"] == "sft"
    assert "--block-size 4" in record["provenance"]["command"]
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "mars")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "mars")
    assert tokenizer.mask_token == MASK_TOKEN
    assert model.get_input_embeddings().num_embeddings > tokenizer.mask_token_id
    assert {tensor.dtype for tensor in load_file(tmp_path / "mars" / "model.safetensors").values()} == {model.dtype}


def test_without_the_sft_loss_only_the_masks_train(
    base: Path, chats: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That loss is no number here: whatever it were a part of would be none either, and is not trained on."""
    losses = run.mars_losses
    nowhere = {"autoregressive": torch.tensor(torch.nan)}
    monkeypatch.setattr(run, "mars_losses", lambda *given, **more: replace(losses(*given, **more), **nowhere))
    words = ["mars", "--checkpoint", str(base), "--block-size", "4", "--data", str(chats), *SMALL, "--no-sft-loss"]
    assert main([*words, "--output", str(tmp_path)]) == 0
    assert all(weight.isfinite().all() for weight in load_file(tmp_path / "model.safetensors").values())
    record = (tmp_path / "mars.json").read_text()
    assert (json.loads(record)["sft_loss"], json.loads(record)["measured"]["final_losses"]["loss_ar"]) == (False, None)
    assert main([*words[:-1], "--output", str(tmp_path / "with")]) == 2
    assert "at step 6 the loss is nan, so training ends" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "with" / "work").iterdir()] == ["settings.json"]


def killed_while_it_trains(words: list[str]) -> int:
    """Run the command until its first step has been saved."""
    save = StageTrainer._save_checkpoint

    def save_and_die(trainer: StageTrainer, *arguments: object) -> None:
        save(trainer, *arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    StageTrainer._save_checkpoint = save_and_die
    return main(words)


def test_a_resumed_run_ends_as_uninterrupted(base: Path, chats: Path, tmp_path: Path) -> None:
    shared = ["mars", "--checkpoint", str(base), "--block-size", "4", "--data", str(chats), *SMALL]
    shared += ["--epochs", "3", "--save-steps", "10", "--optimizer", "muon"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert main([*shared, "--output", str(whole)]) == 0
    words = [*shared, "--output", str(cut)]
    process = forked(partial(killed_while_it_trains, words), out=tmp_path / "out", err=tmp_path / "err")
    process.join(LIMIT)
    assert process.exitcode == -signal.SIGKILL, (tmp_path / "err").read_text()
    assert [path.name for path in (cut / "work").glob("checkpoint-*")] == ["checkpoint-10"]
    (cut / "work" / "checkpoint-9999").mkdir()  # what a kill in the middle of saving leaves
    assert main([*shared, "--output", str(cut), "--resume"]) == 0
    record = json.loads((cut / "mars.json").read_text())
    assert record["measured"]["steps"] == 18
    expected, found = (load_file(folder / "model.safetensors") for folder in (whole, cut))
    assert all(expected[name].equal(found[name]) for name in expected)


def test_a_new_model_takes_a_checkpoints_vocabulary(base: Path, chats: Path, tmp_path: Path) -> None:
    size = ["--layers", "3", "--hidden-size", "64", "--tokenizer", str(base)]
    assert main(["sft", *size, "--output", str(tmp_path), "--data", str(chats), *SMALL]) == 0
    config = AutoConfig.from_pretrained(tmp_path)
    assert (config.num_hidden_layers, config.hidden_size, config.intermediate_size) == (3, 64, 160)
    assert (config.num_attention_heads, config.num_key_value_heads) == (2, 2)
    assert config.vocab_size == AutoConfig.from_pretrained(base).vocab_size
    assert AutoTokenizer.from_pretrained(tmp_path).get_vocab() == AutoTokenizer.from_pretrained(base).get_vocab()
    settings = json.loads((tmp_path / "mars.json").read_text())["settings"]
    assert (settings["layers"], settings["hidden_size"], settings["tokenizer"]) == (3, 64, str(base))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["mars", "--checkpoint", "BASE", "--block-size", "0"], "block_size must be >= 1, got 0"),
        (["mars", "--checkpoint", "BASE", "--block-size", "5"], "max_length must be a multiple of block_size"),
        (["mars", "--checkpoint", "NOWHERE"], "there is no folder NOWHERE: give a checkpoint folder"),
        (["sft", "--checkpoint", "BASE", "--data", "NOWHERE"], "file NOWHERE does not exist"),
        (["sft", "--checkpoint", "BASE", "--data", "EMPTY"], "holds no conversation"),
        (["sft", "--checkpoint", "BASE", "--max-length", "8"], "over the limit of 8"),
        (["sft", "--checkpoint", "BASE", "--max-length", "4096"], "the model's context of 64 tokens"),
        (["sft", "--checkpoint", "BASE", "--resume"], "nothing to resume"),
        (["sft", "--checkpoint", "BASE", "--layers", "2"], "layers is for a model from scratch, got 2"),
        (["sft", "--checkpoint", "BASE", "--tokenizer", "BASE"], "tokenizer is for a model from scratch"),
        (["sft", "--hidden-size", "100"], "hidden_size must be a multiple of 32, the head size, got 100"),
        (["sft", "--examples", "0"], "examples must be >= 1, got 0"),
        (["sft", "--learning-rate", "0"], "learning_rate must be > 0"),
        (["mars", "--checkpoint", "BASE", "--output", "BASE"], "output must be another folder than"),
    ],
)
def test_bad_input_gets_one_sentence(
    words: list[str], sentence: str, base: Path, chats: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    places = {"BASE": str(base), "EMPTY": str(empty)}
    small = [word for word in SMALL if word not in ("--max-length", "48")] if "--max-length" in words else SMALL
    given = ["--output", str(tmp_path / "out"), *([] if "--data" in words else ["--data", str(chats)]), *small]
    assert main([words[0], *given, *(places.get(word, word) for word in words[1:])]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ")
    assert sentence in error


@pytest.mark.parametrize(
    ("stage", "lost"),
    [("sft", "lm_head.weight"), ("mars", "lm_head.weight"), ("sft", "model.layers.0.mlp.up_proj.weight")],
)
def test_training_is_as_strict_as_loading(
    base: Path, chats: Path, tmp_path: Path, stage: str, lost: str, capsys: pytest.CaptureFixture[str]
) -> None:
    copytree(base, tmp_path / "base")
    file = tmp_path / "base" / "model.safetensors"
    save_file({name: weight for name, weight in load_file(file).items() if name != lost}, file, {"format": "pt"})
    words = [stage, "--checkpoint", str(tmp_path / "base"), "--data", str(chats), "--output", str(tmp_path / "out")]
    assert main([*words, *SMALL]) == 2
    assert f"lacks 1 weights for its config.json, {lost} first" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("stage", ["sft", "mars"])
def test_a_head_of_its_own_goes_out(base: Path, chats: Path, tmp_path: Path, stage: str) -> None:
    """The configuration says that it is tied, the files hold another one; the vocabulary has no spare row."""
    copytree(base, tmp_path / "base")
    edit(tmp_path / "base" / "config.json", tie_word_embeddings=True)
    words = [stage, "--checkpoint", str(tmp_path / "base"), "--data", str(chats), "--output", str(tmp_path / "out")]
    assert main([*words, *SMALL, "--learning-rate", "1e-9"]) == 0
    before, after = (load_file(folder / "model.safetensors") for folder in (base, tmp_path / "out"))
    rows = len(before["lm_head.weight"])
    torch.testing.assert_close(
        after["lm_head.weight"][:rows].float(), before["lm_head.weight"].float(), atol=1e-2, rtol=1e-2
    )
    assert AutoConfig.from_pretrained(tmp_path / "out").tie_word_embeddings is False
    assert load_checkpoint(tmp_path / "out", device="cpu").engine.vocab_size == rows + (stage == "mars")


@pytest.fixture(scope="module")
def saved_steps(base: Path, chats: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Path]:
    """The words of a run, and its folder with two saved steps."""
    words = ["sft", "--checkpoint", str(base), "--data", str(chats), *SMALL, "--save-steps", "3"]
    folder = tmp_path_factory.mktemp("steps") / "out"
    assert main([*words, "--output", str(folder)]) == 0
    return words, folder


@pytest.mark.parametrize("size", [-40, 0, None])
@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth", "model.safetensors"])
def test_a_broken_step_is_named(
    saved_steps: tuple[list[str], Path], tmp_path: Path, name: str, size: int | None, capsys: Any
) -> None:
    words, folder = saved_steps
    copytree(folder, tmp_path / "out", ignore=lambda *_: ["checkpoint-6"])
    step = tmp_path / "out" / "work" / "checkpoint-3"
    (step / name).write_bytes((step / name).read_bytes()[:size])
    if size is None:
        (step / name).unlink()
    assert main([*words, "--output", str(tmp_path / "out"), "--resume"]) == 2
    said = capsys.readouterr().err
    assert f"error: the saved step {step} is broken" in said
    assert "delete this folder to go on from the step before it, or start anew\n" in said


def test_ctrl_c_saves_the_step(base: Path, chats: Path, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    words = ["sft", "--checkpoint", str(base), "--data", str(chats), *SMALL, "--output", str(tmp_path)]
    read = StageTrainer.training_step

    def pressed(trainer: StageTrainer, *arguments: Any) -> torch.Tensor:
        os.kill(os.getpid(), signal.SIGINT)
        return read(trainer, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(StageTrainer, "training_step", pressed)
        assert main(words) == 130
    assert capsys.readouterr().err.endswith("stopped: the same command with --resume goes on from what is saved\n")
    assert [path.name for path in (tmp_path / "work").glob("checkpoint-*")] == ["checkpoint-1"]
    assert main(words) == 2
    assert f"{tmp_path / 'work'} holds saved steps: --resume goes on from them" in capsys.readouterr().err
    assert main([*words, "--resume"]) == 0
    monkeypatch.setattr(run, "start", Mock(side_effect=KeyboardInterrupt))
    assert main([*words, "--output", str(tmp_path / "other")]) == 130
    assert capsys.readouterr().err.endswith("stopped: no step is saved yet\n")


@pytest.mark.parametrize("state", ["null", "[]", "{", '{"strange": 1}', ""])
def test_a_step_without_state_is_passed_over(saved_steps: tuple[list[str], Path], tmp_path: Path, state: str) -> None:
    copytree(saved_steps[1] / "work", tmp_path / "work")
    (tmp_path / "work" / "checkpoint-6" / "trainer_state.json").write_text(state)
    assert last_saved_step(tmp_path / "work").endswith("checkpoint-3")


def test_what_cannot_be_written_is_said(base: Path, chats: Path, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    (tmp_path / "file").write_text("")
    words = ["sft", "--checkpoint", str(base), "--data", str(chats), *SMALL, "--output", str(tmp_path / "file" / "out")]
    assert main(words) == 2
    assert "Not a directory" in capsys.readouterr().err.strip().splitlines()[-1]
    monkeypatch.setattr(torch, "save", lambda *_: (_ for _ in ()).throw(RuntimeError("PytorchStreamWriter failed")))
    assert main([*words, "--output", str(tmp_path / "out")]) == 2
    assert "work (PytorchStreamWriter failed): make room, then go on" in capsys.readouterr().err


def test_a_mask_token_takes_new_or_spare_row(base: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(base)
    model = AutoModelForCausalLM.from_pretrained(base)
    rows = model.get_input_embeddings().num_embeddings
    assert add_mask_token(model, tokenizer) == rows
    assert model.get_input_embeddings().num_embeddings == rows + 1
    assert add_mask_token(model, tokenizer) == rows
    assert model.get_input_embeddings().num_embeddings == rows + 1


def test_synthetic_conversations_are_fresh_per_data_seed() -> None:
    first, again, other = (list(synthetic_conversations(12, seed)) for seed in (0, 0, 1))
    assert first == again
    assert not {turn[0]["content"] for turn in first} & {turn[0]["content"] for turn in other}
