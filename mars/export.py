"""Write a checkpoint for ONNX Runtime, as a browser runs it: `python -m mars.export --help`.

The graph is one causal pass (`Step`): it reads columns behind a cache and gives back their entries; to rewind is to
keep fewer of them. Needs `onnx` (requirements-onnx.txt). PyTorch's tracing exporter writes it: a pass has no branches
to lose, and the newer exporter takes twenty times as long.

Shapes: Q columns, T cached tokens, L layers, H key-value heads, D head size, V vocabulary, A alternatives.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, CacheLayerMixin

from mars.checkpoint import Checkpoint, CheckpointError, load_checkpoint
from mars.checkpoint.adapter import is_adapter
from mars.checkpoint.sources import locate
from mars.checkpoint.weights import load_model, read_config

INPUTS, OUTPUTS = ("ids", "cache"), ("logits", "entry", "tokens", "probabilities", "entropy")
ALTERNATIVES = 5
SHARD = 24_000_000
"""Bytes of a file of weights: some file servers take no more than 25 MB."""
_INSIDE = 4_096  # bytes of a weight that stays in the graph
_OPSET = 18
_CONTENT = "\ufdd0"  # a noncharacter, in the place of what the user says


class Step(torch.nn.Module):
    """A causal model of `transformers` as the graph has it.

    From the ids [Q] of the columns and the cache [T, L, 2, H, D] to the logits [Q, V], -inf for the mask token, the
    cache's entries for the columns [Q, L, 2, H, D], the most probable tokens [Q, A], their probabilities, and the
    entropies [Q].
    """

    def __init__(self, model: PreTrainedModel, mask: int):
        super().__init__()
        model.set_attn_implementation("eager")
        self.model, self.mask = model.eval(), mask

    def forward(self, ids_Q: torch.Tensor, cache_TL2HD: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """One pass."""
        cached, layers = cache_TL2HD.shape[:2]
        positions_Q = torch.arange(ids_Q.shape[0]) + cached
        hidden_1QT = torch.arange(ids_Q.shape[0] + cached)[None] > positions_Q[:, None]
        bias_11QT = hidden_1QT.float()[None, None] * torch.finfo(torch.float32).min
        kept = [_Layer(*cache_TL2HD[:, number].permute(1, 2, 0, 3)[:, None]) for number in range(layers)]
        output = self.model.base_model(
            input_ids=ids_Q[None],
            position_ids=positions_Q[None],
            attention_mask=bias_11QT,
            past_key_values=Cache(layers=kept),
            use_cache=True,
        )
        logits_QV = self.model.get_output_embeddings()(output.last_hidden_state)[0]
        masked_V = torch.arange(logits_QV.shape[1]) == self.mask
        logits_QV = torch.where(masked_V, -torch.inf, logits_QV)
        entry_QL2HD = torch.stack([layer.entry_2HQD for layer in kept]).permute(3, 0, 1, 2, 4)
        shares_QV = logits_QV.softmax(-1)
        probabilities_QA, tokens_QA = shares_QV.topk(ALTERNATIVES)
        entropy_Q = -(shares_QV * shares_QV.clamp_min(1e-45).log()).sum(-1)
        return logits_QV, entry_QL2HD, tokens_QA, probabilities_QA, entropy_Q


class _Layer(CacheLayerMixin):
    """The keys and values [1, H, T, D] of one layer, and what a pass adds to them."""

    is_sliding = False

    def __init__(self, keys: torch.Tensor, values: torch.Tensor):
        super().__init__()
        self.keys, self.values, self.is_initialized = keys, values, True
        self.entry_2HQD = torch.empty(0)

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing: the tensors are there."""

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> Any:
        """All keys and values, those of this pass last."""
        self.entry_2HQD = torch.cat((key_states, value_states))
        return torch.cat((self.keys, key_states), 2), torch.cat((self.values, value_states), 2)

    def get_seq_length(self) -> int:
        return self.keys.shape[2]

    def get_max_length(self) -> int:
        return -1

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0


@dataclass(frozen=True)
class Loaded:
    """A checkpoint to write: what is known of it, and its pass in float32."""

    checkpoint: Checkpoint
    step: Step
    mask: int
    cache: tuple[int, ...]
    """The sizes L, 2, H, D of an entry."""


def load(source: str) -> Loaded:
    """The checkpoint of a source; CheckpointError if it cannot be read, or is an adapter."""
    checkpoint = load_checkpoint(source, dtype="float32", device="cpu")
    folder, _ = locate(source)
    if is_adapter(folder):
        raise CheckpointError(f"{source} is an adapter: only whole checkpoints can be exported")
    model_type, config = read_config(folder)
    model = load_model(folder, model_type, config, torch.float32)
    mask = checkpoint.engine.mask_token_id
    heads = config.num_key_value_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    known = -1 if mask is None else mask
    return Loaded(checkpoint, Step(model, known), known, (config.num_hidden_layers, 2, heads, size))


def write(source: str, output: Path) -> dict[str, Any]:
    """Write the graph, its weights, the tokenizer and what says how to use them into a folder; returns the last.

    Weights that bfloat16 holds exactly are written so, 16 bits each: a reader widens them again.
    """
    loaded = load(source)
    output.mkdir(parents=True, exist_ok=True)
    graph = output / "model.onnx"
    _trace(loaded, graph)
    narrow, shards = _move_weights(graph, output)
    tokenizer = loaded.checkpoint.tokenizer
    (output / "tokenizer.json").write_text(tokenizer.backend_tokenizer.to_str(), encoding="utf-8")
    turn = tokenizer.apply_chat_template(
        [{"role": "user", "content": _CONTENT}], tokenize=False, add_generation_prompt=True
    )
    before, after = turn.split(_CONTENT)
    manifest = {
        "name": loaded.checkpoint.name,
        "cache": loaded.cache,
        "mask": loaded.mask,
        "longest": loaded.step.model.config.max_position_embeddings,
        "stops": sorted(loaded.checkpoint.engine.stop_token_ids),
        "special": sorted(set(tokenizer.all_special_ids)),
        "block_size": loaded.checkpoint.usual_block_size,
        "before": before,
        "after": after,
        "narrow": narrow,
        "shards": shards,
        "files": {name: _about(output / name) for name in ("model.onnx", "tokenizer.json", *shards)},
    }
    (output / "manifest.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    return manifest


def _about(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _trace(loaded: Loaded, path: Path) -> None:
    names = [*INPUTS, *OUTPUTS]
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")  # of being the older exporter, and of sizes that it takes for constants
        torch.onnx.export(
            loaded.step,
            (torch.arange(5), torch.zeros(7, *loaded.cache)),
            str(path),
            dynamo=False,
            input_names=list(INPUTS),
            output_names=list(OUTPUTS),
            dynamic_axes={name: {0: "cached" if name == "cache" else "columns"} for name in names},
            opset_version=_OPSET,
            do_constant_folding=False,  # which writes matrices twice where they are used transposed
        )


def _move_weights(graph: Path, output: Path) -> tuple[bool, list[str]]:
    """Move large weights from the graph into shards: whether as bfloat16, and the names of the shards."""
    import onnx

    model = onnx.load(str(graph))
    large = [each for each in model.graph.initializer if len(each.raw_data) > _INSIDE]
    weights = [torch.frombuffer(bytearray(each.raw_data), dtype=torch.float32) for each in large]
    narrow = all(bool((each.bfloat16().float() == each).all()) for each in weights)
    offset = 0
    for each, values in zip(large, weights, strict=True):
        onnx.external_data_helper.set_external_data(each, "weights", offset, values.nbytes)
        each.ClearField("raw_data")
        each.data_location = onnx.TensorProto.EXTERNAL
        offset += values.nbytes
    graph.write_bytes(model.SerializeToString())
    content = torch.cat([each.bfloat16().view(torch.uint8) if narrow else each.view(torch.uint8) for each in weights])
    names = []
    for number, part in enumerate(content.split(SHARD)):
        names.append(f"weights-{number}.bin")
        (output / names[-1]).write_bytes(part.numpy().tobytes())
    return narrow, names


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code, 2 for bad input."""
    command = argparse.ArgumentParser(prog="python -m mars.export", description=__doc__.splitlines()[0])
    command.add_argument("--checkpoint", required=True, metavar="SOURCE", help="a folder or a named base")
    command.add_argument("--output", required=True, type=Path, metavar="FOLDER", help="where to write it")
    options = command.parse_args(arguments)
    try:
        manifest = write(options.checkpoint, options.output)
    except (OSError, ValueError, ImportError) as error:
        sys.stderr.write(f"mars.export: {error}\n")
        return 2
    total = sum(each["bytes"] for each in manifest["files"].values())
    sys.stderr.write(f"{manifest['name']}: {total / 1e6:.1f} MB in {len(manifest['files'])} files\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
