"""Write checkpoints for ONNX Runtime, as a browser runs them.

The graph is one causal pass (`Step`): it reads columns behind a cache and gives back their entries; to rewind is to
keep fewer of them. Merged adapters of one base make one graph, so that the base is loaded once: an input chooses whose
low-rank weights act. Their base is written with 8 bits a weight, which may change texts a little; a reader computes in
float32. Needs `onnx` (requirements-onnx.txt). PyTorch's tracing exporter writes it: a pass has no branches to lose, and
the newer exporter takes twenty times as long.

Shapes: Q columns, T cached tokens, L layers, H key-value heads, D head size, V vocabulary, A alternatives, S ranks of
all adapters together, I and O input and output features.
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
from mars.checkpoint.adapter import Adapter, LowRank, find_base, is_adapter, load_adapter
from mars.checkpoint.sources import locate
from mars.checkpoint.weights import load_model, read_config
from mars.engine.linear import LINEARS, linear_of

INPUTS, OUTPUTS = ("ids", "cache"), ("logits", "entry", "tokens", "probabilities", "entropy")
CHOICE = "choice"
"""The input of a graph with adapters: for each rank 1 or 0, whether it acts."""
ALTERNATIVES = 5
SHARD = 24_000_000
"""Bytes of a file of weights: some file servers take no more than 25 MB."""
BLOCK = 32
"""8-bit weights in a row that share a scale."""
_INSIDE = 4_096  # bytes of a weight that stays in the graph
_OPSET = 18
_CONTENT = "\ufdd0"  # a noncharacter, in the place of what the user says


class Step(torch.nn.Module):
    """A causal model of `transformers`, or a base with adapters, as the graph has it.

    From the ids [Q] of the columns, the cache [T, L, 2, H, D] and the choice [S] of an adapter to the logits [Q, V],
    -inf for the mask token, the cache's entries for the columns [Q, L, 2, H, D], the most probable tokens [Q, A], their
    probabilities, and the entropies [Q].
    """

    def __init__(self, model: PreTrainedModel, mask: int, adapters: Sequence[Adapter] = ()):
        super().__init__()
        model.set_attn_implementation("eager")
        self.model, self.mask = model.eval(), mask
        self.choices = list[_Choice]()
        masks = [adapter.mask_1E[0].float() for adapter in adapters if adapter.mask_1E is not None]
        self.embedding_E = masks[0] if masks else None
        for layer, *changes in zip(model.base_model.layers, *(adapter.layers for adapter in adapters), strict=False):
            for name in changes[0] if changes else ():
                chosen = _Choice(linear_of(layer, name), [pairs[name] for pairs in changes])
                setattr(getattr(layer, LINEARS[name]), name, chosen)
                self.choices.append(chosen)
        for name, weight in self.state_dict().items() if adapters else ():
            if _is_eight(name, weight):
                weight.copy_(_widened(*_narrowed(weight)).reshape(weight.shape))

    def forward(
        self, ids_Q: torch.Tensor, cache_TL2HD: torch.Tensor, choice_S: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, ...]:
        """One pass."""
        if choice_S is not None:
            for each in self.choices:
                each.choice_S = choice_S
        cached, layers = cache_TL2HD.shape[:2]
        positions_Q = torch.arange(ids_Q.shape[0]) + cached
        hidden_1QT = torch.arange(ids_Q.shape[0] + cached)[None] > positions_Q[:, None]
        bias_11QT = hidden_1QT.float()[None, None] * torch.finfo(torch.float32).min
        kept = [_Layer(*cache_TL2HD[:, number].permute(1, 2, 0, 3)[:, None]) for number in range(layers)]
        output = self.model.base_model(
            inputs_embeds=self._embedded(ids_Q)[None],
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

    def _embedded(self, ids_Q: torch.Tensor) -> torch.Tensor:
        embed = self.model.get_input_embeddings()
        if self.embedding_E is None:
            return embed(ids_Q)
        masks_Q1 = (ids_Q == self.mask)[:, None]
        return torch.where(masks_Q1, self.embedding_E, embed(ids_Q.clamp_max(embed.num_embeddings - 1)))


class _Choice(torch.nn.Module):
    """A linear layer with the low-rank weights of several adapters, of which `choice_S` [S] lets one act."""

    weight: torch.Tensor
    down: torch.Tensor
    up: torch.Tensor

    def __init__(self, linear: torch.nn.Linear, pairs: Sequence[LowRank]):
        super().__init__()
        if getattr(linear, "bias", None) is not None:
            raise CheckpointError("a base whose linear layers have biases cannot be exported with adapters")
        # Each as it is multiplied: what ONNX Runtime would turn over when it opens the graph, it would hold twice.
        self.register_buffer("weight", linear.weight.detach().T.contiguous())
        self.register_buffer("down", torch.cat([pair.a_SI.float().T for pair in pairs], 1).contiguous())
        self.register_buffer("up", torch.cat([pair.b_OS.float().T * pair.scale for pair in pairs]).contiguous())
        self.choice_S = torch.empty(0)

    def forward(self, x_QI: torch.Tensor) -> torch.Tensor:
        return x_QI @ self.weight + (x_QI @ self.down * self.choice_S) @ self.up


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
    """Checkpoints to write: what is known of each, and their pass in float32."""

    checkpoints: Sequence[Checkpoint]
    step: Step
    ranks: Sequence[int]
    """Of their adapters; empty for a whole checkpoint."""
    cache: tuple[int, ...]
    """The sizes L, 2, H, D of an entry."""


def load(sources: Sequence[str]) -> Loaded:
    """A whole checkpoint, or merged adapters of one base, whose weights are then those of 8 bits.

    CheckpointError where one cannot be read, or they make no single graph.
    """
    checkpoints = [load_checkpoint(source, dtype="float32", device="cpu") for source in sources]
    folders = [locate(source)[0] for source in sources]
    adapters = [load_adapter(folder) for folder in folders if is_adapter(folder)]
    if len(sources) != (len(adapters) or 1):
        raise CheckpointError(f"one whole checkpoint or adapters of one base make a graph, got {', '.join(sources)}")
    bases = {find_base(folder) for folder in folders} if adapters else {*folders}
    changed = [[(name, len(pair.a_SI)) for layer in each.layers for name, pair in layer.items()] for each in adapters]
    same = len({tuple(name for name, _ in names) for names in changed}) <= 1
    if len(bases) > 1 or not same:
        raise CheckpointError(
            f"only adapters that change the same layers of one base make a graph, got {', '.join(sources)}"
        )
    [base] = bases
    model_type, config = read_config(base)
    model = load_model(base, model_type, config, torch.float32)
    masks = [each.engine.mask_token_id for each in checkpoints if each.engine.mask_token_id is not None]
    step = Step(model, masks[0] if masks else -1, adapters)
    heads = config.num_key_value_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    ranks = [names[0][1] for names in changed]
    return Loaded(checkpoints, step, ranks, (config.num_hidden_layers, 2, heads, size))


def _is_eight(name: str, weight: torch.Tensor) -> bool:
    """Whether a weight of a base with adapters has 8 bits."""
    return name.endswith(".weight") and weight.dim() == 2


def _narrowed(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """8 bits for each weight [N, BLOCK], and the scales [N, 1] in bfloat16 of those that stand together."""
    blocks = weight.detach().reshape(-1, BLOCK)
    scales = (blocks.abs().amax(1, keepdim=True) / 127).bfloat16()
    return (blocks / scales.float().clamp_min(1e-30)).round().clamp(-127, 127).to(torch.int8), scales


def _widened(values: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return values.float() * scales.float()


def write(sources: Sequence[str], output: Path) -> dict[str, Any]:
    """Write the graph, its weights, the tokenizer and what says how to use them into a folder; returns the last.

    Other weights than those of 8 bits are written with 16 if bfloat16 holds them exactly.
    """
    loaded = load(sources)
    output.mkdir(parents=True, exist_ok=True)
    graph = output / "model.onnx"
    _trace(loaded, graph)
    weights, shards = _move_weights(graph, output, eight=bool(loaded.ranks))
    tokenizer = loaded.checkpoints[-1].tokenizer
    (output / "tokenizer.json").write_text(tokenizer.backend_tokenizer.to_str(), encoding="utf-8")
    manifest = {
        "cache": loaded.cache,
        "longest": loaded.step.model.config.max_position_embeddings,
        "weights": weights,
        "shards": shards,
        **_about_text(loaded.checkpoints[-1]),
        "files": {name: _about(output / name) for name in ("model.onnx", "tokenizer.json", *shards)},
        "checkpoints": [_checkpoint(loaded, number) for number in range(len(sources))],
    }
    (output / "manifest.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    return manifest


def _about_text(checkpoint: Checkpoint) -> dict[str, Any]:
    """Which tokens are no text, and what stands before and behind what the user says."""
    tokenizer = checkpoint.tokenizer
    turn = tokenizer.apply_chat_template(
        [{"role": "user", "content": _CONTENT}], tokenize=False, add_generation_prompt=True
    )
    before, after = turn.split(_CONTENT)
    return {"special": sorted(set(tokenizer.all_special_ids)), "before": before, "after": after}


def _checkpoint(loaded: Loaded, number: int) -> dict[str, Any]:
    """What a reader must know of one of the checkpoints alone."""
    checkpoint = loaded.checkpoints[number]
    mask = checkpoint.engine.mask_token_id
    return {
        "name": checkpoint.name,
        "mask": -1 if mask is None else mask,
        "choice": [int(place == number) for place, rank in enumerate(loaded.ranks) for _ in range(rank)],
        "stops": sorted(checkpoint.engine.stop_token_ids),
        "block_size": checkpoint.usual_block_size,
    }


def _about(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _trace(loaded: Loaded, path: Path) -> None:
    given: tuple[torch.Tensor, ...] = (torch.arange(5), torch.zeros(7, *loaded.cache))
    inputs = [*INPUTS, CHOICE] if loaded.ranks else [*INPUTS]
    if loaded.ranks:
        given += (torch.ones(sum(loaded.ranks)),)
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")  # of being the older exporter, and of sizes that it takes for constants
        torch.onnx.export(
            loaded.step,
            given,
            str(path),
            dynamo=False,
            input_names=inputs,
            output_names=list(OUTPUTS),
            dynamic_axes={name: {0: "cached" if name == "cache" else "columns"} for name in (*INPUTS, *OUTPUTS)},
            opset_version=_OPSET,
            do_constant_folding=False,  # which writes matrices twice where they are used transposed
        )


def _move_weights(graph: Path, output: Path, *, eight: bool) -> tuple[list[tuple[str, int]], list[str]]:
    """Move large weights from the graph into shards: the encoding and the number of values of each, and the shards.

    If `eight`, those of the base have 8 bits: the values of a weight, then its scales.
    """
    import onnx

    model = onnx.load(str(graph))
    large = [each for each in model.graph.initializer if len(each.raw_data) > _INSIDE]
    offset, kinds, parts = 0, list[tuple[str, int]](), list[torch.Tensor]()
    for each in large:
        values = torch.frombuffer(bytearray(each.raw_data), dtype=torch.float32).reshape(*each.dims)
        onnx.external_data_helper.set_external_data(each, "weights", offset, values.nbytes)
        each.ClearField("raw_data")
        each.data_location = onnx.TensorProto.EXTERNAL
        offset += values.nbytes
        if eight and _is_eight(each.name, values):
            kind, encoded = "int8", [*_narrowed(values)]
        elif bool((values.bfloat16().float() == values).all()):
            kind, encoded = "bfloat16", [values.bfloat16()]
        else:
            kind, encoded = "float32", [values]
        kinds.append((kind, values.numel()))
        parts += [part.flatten().view(torch.uint8) for part in encoded]
    graph.write_bytes(model.SerializeToString())
    names = []
    for number, part in enumerate(torch.cat(parts).split(SHARD)):
        names.append(f"weights-{number}.bin")
        (output / names[-1]).write_bytes(part.numpy().tobytes())
    return kinds, names


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code, 2 for bad input."""
    command = argparse.ArgumentParser(prog="python -m mars_site.onnx", description=__doc__.splitlines()[0])
    command.add_argument(
        "--checkpoint",
        required=True,
        nargs="+",
        metavar="SOURCE",
        help="a folder or a named base, or merged adapters of one base",
    )
    command.add_argument("--output", required=True, type=Path, metavar="FOLDER", help="where to write it")
    options = command.parse_args(arguments)
    try:
        manifest = write(options.checkpoint, options.output)
    except (OSError, ValueError, ImportError) as error:
        sys.stderr.write(f"mars_site.onnx: {error}\n")
        return 2
    total = sum(each["bytes"] for each in manifest["files"].values())
    names = ", ".join(each["name"] for each in manifest["checkpoints"])
    sys.stderr.write(f"{names}: {total / 1e6:.1f} MB in {len(manifest['files'])} files\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
