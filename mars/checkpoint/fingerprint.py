"""A hash of the values of a base model's weights, which depends on neither dtype nor files.

An adapter is trained for the values of one base, and the record beside it names them by this hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

import torch
from safetensors import safe_open

_HEAD, _EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"


def fingerprint(state: Mapping[str, torch.Tensor]) -> str:
    """The hexadecimal SHA-256 of a state dict: of each weight in the order of the names its name, shape and values.

    Values count as bfloat16, so that a model has one fingerprint in float32 and in bfloat16. A vocabulary matrix that
    is the embedding counts once, whether the state names it once or twice.
    """
    return _digest(state, state.__getitem__)


def folder_fingerprint(folder: Path) -> str:
    """The `fingerprint` of the weights in a folder's safetensors files, read one by one.

    Raises:
        OSError, SafetensorError: a file cannot be read.
    """
    with ExitStack() as stack:
        opened = [stack.enter_context(safe_open(file, "pt")) for file in sorted(folder.glob("*.safetensors"))]
        places = {name: file for file in opened for name in file.keys()}  # noqa: SIM118 - it is no mapping
        return _digest(places, lambda name: places[name].get_tensor(name))


def _digest(names: Iterable[str], read: Callable[[str], torch.Tensor]) -> str:
    known = set(names)
    if {_HEAD, _EMBEDDING} <= known and _same(read(_HEAD), read(_EMBEDDING)):
        known.remove(_HEAD)
    digest = hashlib.sha256()
    for name in sorted(known):
        weight = read(name).detach().to("cpu", torch.bfloat16).contiguous()
        digest.update(f"{name} {list(weight.shape)}\n".encode())
        digest.update(weight.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape:
        return False
    return one.data_ptr() == other.data_ptr() or torch.equal(one.to(torch.bfloat16), other.to(torch.bfloat16))
