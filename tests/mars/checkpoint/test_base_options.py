"""--base and --allow-other-base of the commands, and sources where training and analysis read them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from analysis.__main__ import main as analyse
from analysis.sweeps.models import describe
from mars.checkpoint.adapter import weights_folder
from mars.generate import main
from mars.training.settings import TrainingSettings
from mars.training.start import start

WriteAdapter = Callable[..., Path]


def generate(*options: str) -> int:
    return main(["--prompt", "Tom", "--max-new-tokens", "16", "--device", "cpu", "--dtype", "float32", *options])


def test_an_adapter_with_another_base_may_run(
    write_adapter: WriteAdapter, llama_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(write_adapter())
    other = llama_folder.rename(llama_folder.with_name("other"))
    weights = load_file(other / "model.safetensors")
    save_file({name: weight * 1.1 for name, weight in weights.items()}, other / "model.safetensors", {"format": "pt"})
    assert generate("--checkpoint", folder, "--decoder", "self_speculative") == 2
    assert "the base of the adapter tiny-adapter cannot be read" in capsys.readouterr().err
    assert generate("--checkpoint", folder, "--base", str(other), "--decoder", "self_speculative") == 2
    assert "or go on with --allow-other-base" in capsys.readouterr().err
    allowed = ("--base", str(other), "--allow-other-base")
    assert generate("--checkpoint", folder, *allowed, "--decoder", "self_speculative") == 0


def test_a_run_names_adapter_and_counts_base(
    write_adapter: WriteAdapter, llama_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_adapter()
    described, base = describe(str(folder)), describe(str(llama_folder))
    assert (described["name"], described["stage"], described["block_size"]) == ("tiny-adapter", "mars", 4)
    assert described["fingerprint"] != base["fingerprint"]
    own = [weight for file in folder.glob("*.safetensors") for weight in load_file(file).values()]
    assert described["parameters"] == base["parameters"] + sum(weight.numel() for weight in own)
    assert (weights_folder(folder), weights_folder(llama_folder)) == (llama_folder, llama_folder)
    few = "--problems 1 --max-new-tokens 8 --device cpu --dtype float32 --batch-sizes 6 --decoders jacobi --json"
    folder = write_adapter(stage="sft")  # a random mask would be written
    assert analyse(["bench", "--checkpoint", str(folder), *few.split()]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[-1])["results"][0]
    assert (first["contestant"], first["identical"]) == ("generate", 6), "it runs the adapter, not its base"


def test_training_starts_from_a_gguf_file(cache: Path, tiny_gguf: Path, tiny_llama: PreTrainedModel) -> None:
    settings = TrainingSettings(stage="sft", output=str(cache / "out"), checkpoint=str(tiny_gguf))
    model, tokenizer = start(settings)
    assert model.config.num_hidden_layers == tiny_llama.config.num_hidden_layers
    assert model.config.model_type == "llama"
    assert len(tokenizer) == tiny_llama.config.vocab_size
