"""Models with random weights, as small as tests want them, and folders of such models, changed."""

import json
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel


def sizes(**changes: Any) -> dict[str, Any]:
    """Those of a model with grouped heads, with these changes: what a `Qwen2Config` or `LlamaConfig` takes."""
    return {
        "vocab_size": 60,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "initializer_range": 0.15,
        **changes,
    }


def edit(path: Path, **changes: Any) -> None:
    """Other values in the object of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def build(kind: type[PreTrainedModel], config: Any) -> PreTrainedModel:
    """The same model each time."""
    torch.manual_seed(0)
    model = kind(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or name.endswith("bias"):  # they start as ones and zeros, which would hide them
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model
