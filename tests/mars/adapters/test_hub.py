"""`custom_generate` with an adapter: on the model's own weights, and gone when it is not asked for."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from mars.checkpoint.adapter import load_adapter
from mars.checkpoint.errors import CheckpointError
from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.engine import ModelEngine
from mars.hub import MarsOutput, find_engine, generate
from mars.metrics import output_ids

pytestmark = pytest.mark.usefixtures("one_thread")

PROMPT = [9, 10, 11]


def write(model: PreTrainedModel, adapter: object, **options: Any) -> MarsOutput:
    ids = torch.tensor([PROMPT, PROMPT[::-1]])
    given = {"max_new_tokens": 16, "pad_token_id": 0, "return_dict_in_generate": True, "adapter": adapter, **options}
    found = generate(model, ids, **given)
    assert isinstance(found, MarsOutput)
    return found


def test_it_decodes_with_the_adapter_of_a_folder(
    base: Callable[..., PreTrainedModel], saved: Callable[..., Path]
) -> None:
    model, folder = base(), saved(head=True)
    adapter = load_adapter(folder)
    engine = ModelEngine(base(), stop_token_ids=frozenset(), adapter=adapter)
    settings = DecodingSettings(max_new_tokens=16, threshold=0.2, block_size=4)
    expected = output_ids(list(DECODERS["sliding_window"](engine, [PROMPT, PROMPT[::-1]], settings)))
    for given in (str(folder), folder, adapter):
        found = write(model, given, threshold=0.2)
        assert output_ids(found.records or ()) == expected
        assert len(found.records[1].rows[0].proposals) == 4  # type: ignore[index]
    exact, plain = write(model, folder, decoder="self_speculative"), write(model, None, decoder="autoregressive")
    assert torch.equal(exact.sequences, plain.sequences)


def test_engines_are_kept_and_share_the_weights(
    base: Callable[..., PreTrainedModel], saved: Callable[..., Path]
) -> None:
    model, adapter, stops = base(), load_adapter(saved()), frozenset[int]()
    adapted = find_engine(model, stops, None, adapter)
    plain = find_engine(model, stops, None)
    assert find_engine(model, stops, None, adapter) is adapted
    assert plain.mask_token_id is None
    assert adapted._model._held is plain._model._held  # type: ignore[attr-defined]
    assert find_engine(model, stops, None, load_adapter(saved())) is not adapted


def test_a_folder_that_changes_is_read_again(
    base: Callable[..., PreTrainedModel], saved: Callable[..., Path], tmp_path: Path
) -> None:
    model, folder = base(), tmp_path / "mine"
    shutil.copytree(saved(), folder)
    first = write(model, folder, decoder="sliding_window", threshold=0.0)
    shutil.copytree(saved(head=True), folder, dirs_exist_ok=True)
    assert write(model, folder, threshold=0.0).sequences.tolist() != first.sequences.tolist()


def test_what_cannot_be(base: Callable[..., PreTrainedModel], saved: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^an adapter brings masks of its own: pass adapter or mask_token_id"):
        write(base(), saved(), mask_token_id=3)
    with pytest.raises(CheckpointError, match=r"adapter_config.json is missing"):
        write(base(), tmp_path)
