"""Folders of adapters: what PEFT saves is read, and what is wrong is said in one sentence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from mars.checkpoint import CheckpointError, load_checkpoint
from mars.checkpoint.adapter import find_base, load_adapter
from tests.mars.tiny import edit

pytestmark = pytest.mark.usefixtures("one_thread")

WEIGHT = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"


@pytest.fixture
def folder(write_adapter: Callable[..., Path], tmp_path: Path) -> Path:
    """One that may be broken."""
    return write_adapter().rename(tmp_path / "mine")


def change_tensors(path: Path, **tensors: torch.Tensor | None) -> None:
    found = {**load_file(path), **{name.replace("__", "."): tensor for name, tensor in tensors.items()}}
    save_file({name: tensor for name, tensor in found.items() if tensor is not None}, path)


@pytest.mark.parametrize("file", ["adapter_config.json", "adapter_model.safetensors", "masks.safetensors"])
def test_missing_files(folder: Path, file: str) -> None:
    (folder / file).unlink()
    with pytest.raises(CheckpointError, match=rf"{file} is missing: an adapter's folder needs it, so copy it there$"):
        load_adapter(folder)


@pytest.mark.parametrize("file", ["adapter_model.safetensors", "masks.safetensors"])
def test_broken_files(folder: Path, file: str) -> None:
    (folder / file).write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match=rf"{file} is broken \(.*\): copy or download it again$"):
        load_adapter(folder)


@pytest.mark.parametrize(
    "values", [{"r": 0}, {"r": 4.0}, {"lora_alpha": "8"}, {"lora_alpha": 0}, {"lora_alpha": 1e999}]
)
def test_rank_and_alpha_are_numbers(folder: Path, values: dict[str, Any]) -> None:
    edit(folder / "adapter_config.json", **values)
    with pytest.raises(CheckpointError, match=r"r must be >= 1 and lora_alpha > 0, got"):
        load_adapter(folder)


def test_a_plain_adapter_is_called_so(folder: Path) -> None:
    (folder / "mars.json").unlink()
    for read in (load_adapter, find_base):
        with pytest.raises(CheckpointError, match=r"is a plain LoRA adapter of PEFT, .* merge_and_unload"):
            read(folder)


def test_a_pickle_is_not_read(folder: Path) -> None:
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    with pytest.raises(CheckpointError, match="is a pickle, which may hold code: save the adapter as safetensors"):
        load_adapter(folder)


def test_records_of_another_kind(folder: Path) -> None:
    for stage, mode in (("mars", "merged"), (["sft"], "merged"), ("adapter", "half"), ("sft", {})):
        edit(folder / "mars.json", stage=stage, mode=mode)
        with pytest.raises(CheckpointError, match=r"stage must be 'adapter' or 'sft', and mode 'merged' \(.*\), got"):
            load_adapter(folder)


def test_gated_adapters_name_their_last_commit(folder: Path) -> None:
    edit(folder / "mars.json", mode="gated", masks=3, head=True)
    for read in (load_adapter, load_checkpoint):
        with pytest.raises(CheckpointError, match=r"mode 'merged' \(gated ones run at commit 4ebfdf5\), got .*'gated'"):
            read(folder)


TENSORS: list[tuple[str, dict[str, torch.Tensor | None], str]] = [
    ("adapter_model", {WEIGHT: None}, r"lacks lora_A of q_proj in layer 0: save it again$"),
    ("adapter_model", {WEIGHT: torch.zeros(5, 32)}, r"must be \[4, in\] and \[out, 4\], as .* says, got \[5, 32\] and"),
    ("adapter_model", {"lm_head.weight": torch.zeros(2)}, r"holds lm_head.weight, which is no LoRA weight of q_proj"),
    ("adapter_model", {WEIGHT.replace(".0.", ".100000000."): torch.zeros(4, 32)}, r"is no LoRA weight .*: merge it"),
    ("masks", {"mask_embeddings": None}, r"mask_embeddings must be \[1, hidden size\], got none$"),
    ("masks", {"mask_embeddings": torch.zeros(0, 4)}, r"mask_embeddings must be .*, got \[0, 4\]$"),
    ("masks", {"mask_embeddings": torch.zeros(3, 32)}, r"mask_embeddings must be .*, got \[3, 32\]$"),
]


@pytest.mark.parametrize(("file", "tensors", "sentence"), TENSORS)
def test_tensors_of_the_wrong_shape(
    folder: Path, file: str, tensors: dict[str, torch.Tensor | None], sentence: str
) -> None:
    change_tensors(folder / f"{file}.safetensors", **tensors)
    with pytest.raises(CheckpointError, match=sentence):
        load_adapter(folder)
