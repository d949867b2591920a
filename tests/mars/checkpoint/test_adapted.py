"""Adapters as checkpoints: the base they belong to, weights that lanes share, and merging."""

import gc
import json
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import LlamaForCausalLM

from analysis.sweeps.models import describe
from mars.checkpoint import Checkpoint, CheckpointError, load_checkpoint
from mars.checkpoint.adapter import WEIGHTS_FILE
from mars.checkpoint.sources import NAMED_BASES, weights_digest
from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.engine import ModelEngine
from mars.metrics import output_ids
from mars.training.adapter_run import load_base
from tests.mars.tiny import edit

PROMPT = [9, 10, 11, 12]

WriteAdapter = Callable[..., Path]


def load(source: Path | str, **options: object) -> Checkpoint:
    return load_checkpoint(source, dtype="float32", device="cpu", **options)  # type: ignore[arg-type]


def engine_of(checkpoint: Checkpoint) -> ModelEngine:
    assert isinstance(checkpoint.engine, ModelEngine)
    return checkpoint.engine


def written(checkpoint: Checkpoint, decoder: str, **settings: object) -> list[int]:
    asked = DecodingSettings(block_size=4, max_new_tokens=24, **settings)  # type: ignore[arg-type]
    return output_ids(DECODERS[decoder](checkpoint.engine, [PROMPT], asked))


def change_base(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"] = weights["model.norm.weight"] + 1
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def addresses(checkpoint: Checkpoint) -> list[int]:
    return [parameter.data_ptr() for parameter in engine_of(checkpoint).model.parameters()]


def test_lanes_on_one_base_share_its_weights(tiny_gguf: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A named one, whose file is found once."""
    monkeypatch.setattr(type(NAMED_BASES["smollm2-135m"]), "file", lambda self: tiny_gguf)
    one, other = load("smollm2-135m"), load("smollm2-135m")
    assert addresses(one) == addresses(other)
    networks = [engine_of(checkpoint)._model for checkpoint in (one, other)]
    assert networks[0]._held is networks[1]._held  # type: ignore[union-attr]
    assert networks[0]._head is networks[1]._head  # type: ignore[union-attr]
    assert networks[0]._embedding.data_ptr() == addresses(one)[0]  # type: ignore[union-attr]


def test_other_dtypes_and_other_weights_are_not_shared(llama_folder: Path) -> None:
    one = load(llama_folder)
    coarse = load_checkpoint(llama_folder, dtype="bfloat16", device="cpu")
    assert engine_of(coarse).model.dtype == torch.bfloat16
    change_base(llama_folder)
    other = load(llama_folder)
    assert addresses(one) != addresses(other)
    assert not torch.equal(engine_of(one).model.model.norm.weight, engine_of(other).model.model.norm.weight)


def test_weights_that_nobody_uses_are_given_back(llama_folder: Path) -> None:
    one, other = load(llama_folder), load(llama_folder)
    written(one, "autoregressive")
    model = weakref.ref(engine_of(one).model)
    del one
    gc.collect()
    assert model() is not None
    del other
    gc.collect()
    assert model() is None


def test_another_base_is_refused_with_both_fingerprints(write_adapter: WriteAdapter, llama_folder: Path) -> None:
    folder = write_adapter()
    change_base(llama_folder)
    trained_on = json.loads((folder / "mars.json").read_text())["base"]["fingerprint"]
    with pytest.raises(CheckpointError) as refused:
        load(folder)
    assert f"trained on weights with the fingerprint {trained_on[:16]}, those of" in str(refused.value)
    assert "--allow-other-base" in str(refused.value)
    assert "\n" not in str(refused.value)
    checkpoint = load(folder, allow_other_base=True)
    assert checkpoint.supports_masks


def test_the_base_may_be_given(write_adapter: WriteAdapter, llama_folder: Path, tmp_path: Path) -> None:
    folder = write_adapter()
    moved = llama_folder.rename(tmp_path / "moved")
    with pytest.raises(
        CheckpointError, match=r"adapter tiny-adapter cannot be read: there is no folder .*; --base gives"
    ):
        load(folder)
    assert load(folder, base=str(moved)).supports_masks
    with pytest.raises(CheckpointError, match=r"must be a whole model, .* is an adapter"):
        load(folder, base=str(folder))


def test_pefts_own_name_of_the_base_will_do(write_adapter: WriteAdapter, llama_folder: Path) -> None:
    folder = write_adapter()
    fingerprint = json.loads((folder / "mars.json").read_text())["base"]["fingerprint"]
    edit(folder / "mars.json", base={"fingerprint": fingerprint})
    edit(folder / "adapter_config.json", base_model_name_or_path=str(llama_folder))
    assert load(folder).supports_masks
    edit(folder / "adapter_config.json", base_model_name_or_path=None)
    with pytest.raises(CheckpointError, match="names no base: give it with --base"):
        load(folder)


def test_a_base_without_a_fingerprint_is_refused(write_adapter: WriteAdapter, llama_folder: Path) -> None:
    folder = write_adapter()
    edit(folder / "mars.json", base={"name": str(llama_folder)})
    with pytest.raises(CheckpointError, match="must have the fingerprint of the weights it was trained on"):
        load(folder)
    assert load(folder, allow_other_base=True).supports_masks


@pytest.fixture
def on_sft(write_adapter: WriteAdapter, tmp_path: Path) -> tuple[Path, Path]:
    """An adapter of plain SFT, and one of other scale on it, which changes fewer layers."""
    sft, folder = write_adapter(stage="sft").rename(tmp_path / "sft"), write_adapter()
    own = load_file(folder / WEIGHTS_FILE)
    save_file({name: weight * 1.5 for name, weight in own.items() if "gate" not in name}, folder / WEIGHTS_FILE)
    edit(folder / "adapter_config.json", lora_alpha=2)
    edit(folder / "mars.json", below=weights_digest([sft / WEIGHTS_FILE]))
    return sft, folder


def test_merging_is_as_peft_does(on_sft: tuple[Path, Path], llama_folder: Path) -> None:
    """The slow twin, with both adapters acting."""
    model = PeftModel.from_pretrained(LlamaForCausalLM.from_pretrained(llama_folder), on_sft[0], "sft")
    model.load_adapter(on_sft[1], "mars")
    before = model.get_base_model().model.layers[0].mlp.gate_proj.weight.clone()
    for active, folder in ((["sft"], on_sft[0]), (["sft", "mars"], on_sft[1])):
        model.base_model.set_adapter(active)
        model.base_model.merge_adapter()
        ours = engine_of(load(folder)).model.model.layers.state_dict()
        theirs = model.get_base_model().model.layers.state_dict()
        for name, weight in theirs.items():
            if "lora" not in name:
                torch.testing.assert_close(ours[name.replace("base_layer.", "")], weight)
        model.base_model.unmerge_adapter()
        assert not torch.allclose(before, ours["0.mlp.gate_proj.weight"], atol=1e-2)
    sizes = [describe(str(folder))["parameters"] for folder in on_sft]
    assert sizes[1] - sizes[0] == 32 + sum(map(torch.numel, load_file(on_sft[1] / WEIGHTS_FILE).values()))


def test_what_an_adapter_is_on_must_be_beside_it(on_sft: tuple[Path, Path], tmp_path: Path) -> None:
    sft, folder = on_sft
    with pytest.raises(ValueError, match=r"has masks, or is on another adapter: give a model, or an adapter of plain"):
        load_base(str(folder), tmp_path / "more")
    origin = load_base(str(sft), tmp_path / "more")[2]
    assert origin["base"] == json.loads((sft / "mars.json").read_text())["base"]
    assert origin["below"] == json.loads((folder / "mars.json").read_text())["below"]
    with pytest.raises(ValueError, match=rf"output must be beside its base .*: give {tmp_path / 'more'}$"):
        load_base(str(sft), tmp_path / "runs" / "more")
    for spoil in (lambda: edit(sft / "mars.json", stage="adapter"), lambda: sft.rename(tmp_path.parent / "away")):
        spoil()
        with pytest.raises(CheckpointError, match=r"on one of plain SFT, whose weights have .*: copy it there$"):
            load(folder)


def test_a_merged_adapter_is_a_plain_mars_checkpoint(write_adapter: WriteAdapter, llama_folder: Path) -> None:
    folder = write_adapter()
    merged, base = load(folder), load(llama_folder)
    mask = merged.tokenizer.get_vocab()["<|mask|>"]
    assert (merged.engine.mask_token_id, merged.supports_masks, merged.block_size) == (mask, True, 4)
    row = engine_of(merged).model.get_input_embeddings().weight[mask]
    assert torch.equal(row, load_file(folder / "masks.safetensors")["mask_embeddings"][0])
    assert addresses(merged) != addresses(base)
    assert written(merged, "self_speculative") == written(merged, "autoregressive")
    for decoder in ("sliding_window", "block_cached"):
        assert mask not in written(merged, decoder, threshold=0.01)


def take_the_mask(folder: Path) -> None:
    for path in (folder / "tokenizer.json", folder / "tokenizer_config.json"):
        path.write_text(path.read_text().replace("<|mask|>", "<|other|>"))


def test_a_full_vocabulary_gets_a_new_row(write_adapter: WriteAdapter, llama_folder: Path) -> None:
    take_the_mask(llama_folder)
    merged, base = load(write_adapter()), load(llama_folder)
    assert merged.engine.mask_token_id == base.engine.vocab_size
    assert merged.engine.vocab_size == base.engine.vocab_size + 1
    assert base.engine.vocab_size == engine_of(base).model.get_input_embeddings().num_embeddings
    assert written(merged, "self_speculative") == written(merged, "autoregressive")


def test_merging_keeps_a_head_of_its_own(write_adapter: WriteAdapter, llama_folder: Path) -> None:
    """The configuration says that it is tied, the files hold another one; the mask takes a new row."""
    take_the_mask(llama_folder)
    weights = load_file(llama_folder / "model.safetensors")
    head = torch.randn_like(weights["model.embed_tokens.weight"])
    save_file({**weights, "lm_head.weight": head}, llama_folder / "model.safetensors", {"format": "pt"})
    model = engine_of(load(write_adapter())).model
    assert torch.equal(model.get_output_embeddings().weight[:-1], head)


def test_another_shape_is_refused(write_adapter: WriteAdapter) -> None:
    folder = write_adapter()
    weights = load_file(folder / "adapter_model.safetensors")
    key = next(name for name in weights if name.endswith("lora_B.weight"))
    weights[key] = torch.zeros(7, weights[key].shape[1])
    save_file(weights, folder / "adapter_model.safetensors")
    with pytest.raises(CheckpointError, match=r"does not fit this base: it changes \w+ as \[7, \d+\], not \["):
        load(folder)
