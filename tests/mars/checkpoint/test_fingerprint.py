"""The fingerprint of a base's weights: the values decide, not the files."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import PreTrainedModel

from mars.checkpoint.weights import folder_fingerprint

Fingerprint = Callable[[Mapping[str, torch.Tensor]], str]


@pytest.fixture
def fingerprint(tmp_path: Path) -> Fingerprint:
    """That of a folder with these weights."""

    def of(state: Mapping[str, torch.Tensor]) -> str:
        save_file({name: weight.clone() for name, weight in state.items()}, tmp_path / "model.safetensors")
        return folder_fingerprint(tmp_path)

    return of


def test_it_is_what_its_definition_says(fingerprint: Fingerprint) -> None:
    one, two = torch.tensor([[1.0, 2.0]]), torch.tensor([3.0])
    digest = hashlib.sha256()
    digest.update(b"a [1]\n" + two.bfloat16().view(torch.uint8).numpy().tobytes())
    digest.update(b"b [1, 2]\n" + one.bfloat16().view(torch.uint8).numpy().tobytes())
    assert fingerprint({"b": one, "a": two}) == digest.hexdigest()


def test_the_dtype_and_the_files_do_not(fingerprint: Fingerprint, tmp_path: Path, tiny_llama: PreTrainedModel) -> None:
    wanted = fingerprint(tiny_llama.state_dict())
    tiny_llama.save_pretrained(tmp_path / "one")
    tiny_llama.save_pretrained(tmp_path / "several", max_shard_size="20KB")
    assert len(list((tmp_path / "several").glob("*.safetensors"))) > 1
    rounded = {name: weight.to(torch.bfloat16) for name, weight in tiny_llama.state_dict().items()}
    assert {fingerprint(rounded), folder_fingerprint(tmp_path / "one"), folder_fingerprint(tmp_path / "several")} == {
        wanted
    }


def test_a_tied_matrix_counts_once(fingerprint: Fingerprint, tiny_llama: PreTrainedModel) -> None:
    state = dict(tiny_llama.state_dict())
    wanted = fingerprint(state)
    state["lm_head.weight"] = state["lm_head.weight"].clone()
    assert fingerprint(state) == wanted
    del state["lm_head.weight"]
    assert fingerprint(state) == wanted
    state["lm_head.weight"] = state["model.embed_tokens.weight"] + 1
    assert fingerprint(state) != wanted
