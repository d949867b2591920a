"""Tiny bases with random adapters, saved by PEFT itself, and an engine that runs them through PEFT: the slow twin."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from mars.phrases import Phrases
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import (
    DynamicCache,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from mars.checkpoint.adapter import load_adapter
from mars.engine.adapter import LINEARS
from mars.engine.conditional import ConditionalHead, States
from mars.engine.engine import Clock, ModelEngine
from mars.engine.window import Window
from tests.mars.tiny import sizes

VOCABULARY = 60
SIZES = sizes(num_hidden_layers=3, max_position_embeddings=256, initializer_range=0.3, tie_word_embeddings=True)
KINDS: dict[str, Callable[[], PreTrainedModel]] = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**{**SIZES, "tie_word_embeddings": False})),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=None)),
}
MASKS = 3


@contextmanager
def _deprecations() -> Iterator[None]:
    """PEFT asks transformers for things by their old names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


@pytest.fixture(scope="session")
def base() -> Callable[[str], PreTrainedModel]:
    """`base("llama")`: a new model with random weights, each time the same."""

    def build(kind: str = "llama") -> PreTrainedModel:
        torch.manual_seed(0)
        return KINDS[kind]().eval()

    return build


@pytest.fixture(scope="session")
def saved(
    base: Callable[[str], PreTrainedModel], tmp_path_factory: pytest.TempPathFactory, one_thread: None
) -> Callable[..., Path]:
    """`saved("llama", head=True)`: the folder of a random adapter for that base; `targets` are its linear layers."""

    @cache
    def save(kind: str = "llama", *, head: bool = False, targets: Sequence[str] = tuple(LINEARS)) -> Path:
        folder = tmp_path_factory.mktemp("adapters") / "tiny"
        torch.manual_seed(1)
        with _deprecations():
            wrapped = get_peft_model(base(kind), LoraConfig(r=4, lora_alpha=8, target_modules=list(targets)))
        with torch.no_grad():
            for name, parameter in wrapped.named_parameters():
                if "lora_" in name:
                    parameter.normal_(std=0.2)
        wrapped.save_pretrained(str(folder))
        size = SIZES["hidden_size"]
        masks = {"mask_embeddings": torch.randn(MASKS, size)}
        if head:
            masks |= {"head.up": torch.randn(24, 2 * size) * 0.3, "head.down": torch.randn(size, 24) * 0.3}
        save_file(masks, folder / "masks.safetensors")
        record = {"stage": "adapter", "mode": "gated", "block_size": MASKS + 1, "masks": MASKS, "head": head}
        (folder / "mars.json").write_text(json.dumps({**record, "settings": {"candidates": 8}}))
        return folder

    return save


@pytest.fixture(scope="session")
def engine_of(base: Callable[[str], PreTrainedModel], saved: Callable[..., Path]) -> Callable[..., ModelEngine]:
    """`engine_of("llama", head=True)`: an engine with that adapter, which nothing stops; `graphs` as for the class."""

    def build(kind: str = "llama", *, graphs: bool | None = None, **options: Any) -> ModelEngine:
        adapter = load_adapter(saved(kind, **options))
        return ModelEngine(base(kind), stop_token_ids=frozenset(), graphs=graphs, adapter=adapter)

    return build


@pytest.fixture(scope="session")
def twin_of(base: Callable[[str], PreTrainedModel], saved: Callable[..., Path]) -> Callable[..., PeftEngine]:
    """`twin_of("llama", head=True)`: the slow twin of `engine_of("llama", head=True)`."""

    @cache
    def build(kind: str = "llama", **options: Any) -> PeftEngine:
        return PeftEngine(base(kind), saved(kind, **options))

    return build


class PeftEngine:
    """An engine that recomputes each pass in two calls of PEFT's model: real tokens without the adapter, masks with it.

    Masks read the keys and values that the first call has left. The conditional head is the one under test elsewhere.
    """

    diffusion_mask_id = None
    static_shapes = False
    stop_token_ids: frozenset[int] = frozenset()
    template_ids: frozenset[int] = frozenset()
    phrases: Phrases | None = None
    calibration = None

    def __init__(self, model: PreTrainedModel, folder: Path):
        adapter = load_adapter(folder)
        self.vocab_size = self.mask_token_id = model.config.vocab_size
        self.context_length = model.config.max_position_embeddings
        self.device = model.device
        self.mask_embeddings = adapter.mask_embeddings
        embedding, vocabulary = model.get_input_embeddings().weight, model.get_output_embeddings().weight
        self.head = adapter.head and ConditionalHead(
            adapter.head, embedding.detach(), vocabulary.detach(), None, adapter.candidates
        )
        with _deprecations():
            self.peft = PeftModel.from_pretrained(copy.deepcopy(model), str(folder)).eval()

    def open(self, rows: int, capacity: int, *, use_cache: bool = True) -> PeftRows:
        return PeftRows(self, rows, capacity)

    def clock(self) -> Clock:
        return Clock()


class PeftRows:
    warming = False

    def __init__(self, engine: PeftEngine, rows: int, capacity: int):
        self.states: States | None = None
        self._engine = engine
        self._ids_RS = torch.zeros(rows, capacity + 1, dtype=torch.long)

    @torch.no_grad()
    def forward(self, window: Window) -> torch.Tensor:
        hidden = []
        for row in range(window.rows):
            slots_Q, place = window.slots_RQ[row], window.first + row
            self._ids_RS[place].scatter_(0, slots_Q, window.ids_RQ[row])
            found_SE = self._row(self._ids_RS[place, : window.extent], row, window)
            hidden.append(found_SE[slots_Q[window.columns - window.keep :]])
        hidden_RWE = torch.stack(hidden)
        self.states = self._engine.head and States(hidden_RWE, self._engine.head)
        return self._engine.peft.get_base_model().get_output_embeddings()(hidden_RWE).float()

    def move(self, source: int, target: int) -> None:
        self._ids_RS[target] = self._ids_RS[source]

    def copy(self, source: int, target: int, tokens: int) -> None:
        self._ids_RS[target, : tokens + 1] = self._ids_RS[source, : tokens + 1]

    def _row(self, ids_S: torch.Tensor, row: int, window: Window) -> torch.Tensor:
        """Hidden states [S, E] of a row's slots; 0 where nobody asks."""
        numbers_S = torch.arange(window.extent)
        slots_Q = window.slots_RQ[row]
        sees_SS = numbers_S <= numbers_S[:, None]
        sees_SS[slots_Q] = window.visible(numbers_S)[row]
        positions_S = (numbers_S - 1).clamp_min(0)
        positions_S[slots_Q] = window.positions[row]
        masks = [slot for slot in slots_Q.tolist() if slot and ids_S[slot] == self._engine.mask_token_id]
        furthest = int(slots_Q.max())
        real = [slot for slot in range(1, furthest + 1) if slot not in masks]
        peft, cache = self._engine.peft, DynamicCache()
        found_SE = torch.zeros(window.extent, self._engine.mask_embeddings.shape[1])

        def call(slots: list[int], keys: list[int], **inputs: torch.Tensor) -> None:
            output = peft.get_base_model().model(
                position_ids=positions_S[slots][None],
                attention_mask=sees_SS[slots][:, keys][None, None],
                past_key_values=cache,
                use_cache=True,
                **inputs,
            )
            found_SE[slots] = output.last_hidden_state[0]

        if not real:
            return found_SE
        with peft.disable_adapter():
            call(real, real, input_ids=ids_S[real][None])
        if masks:
            numbers = (sees_SS[masks][:, masks].sum(1) - 1).clamp_max(MASKS - 1)
            call(masks, real + masks, inputs_embeds=self._engine.mask_embeddings[numbers][None])
        return found_SE
