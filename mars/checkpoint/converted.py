"""GGUF files as checkpoint folders in the user's cache directory: converted once, checked by hash ever after.

A folder is called by the hash of its file's content. It is made beside its place and renamed into it; its manifest,
written last, holds the hash of every file and the fingerprint of the weights. A folder that does not match its manifest
is converted again. One process at a time converts a file; others wait for it.

Folders have plain bfloat16 weights: those of 4 or 8 bits are written out in full, which is the same model, larger.
`transformers` reads the tokenizer, names and orders the weights; its own loading of a file, which reports no progress
and knows no parts, is the slow twin. A model that was split into several files is read from all of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from huggingface_hub.errors import StrictDataclassError
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, pre_tokenizers
from transformers import GenerationConfig, PreTrainedConfig, PreTrainedTokenizerFast
from transformers.integrations.ggml import GGUF_CONFIG_MAPPING
from transformers.modeling_gguf_pytorch_utils import TENSOR_PROCESSORS, TensorProcessor, get_gguf_hf_weights_map

from mars.checkpoint.errors import CheckpointError, Progress, failing
from mars.checkpoint.weights import (
    AGAIN,
    MODELS,
    MOST_LAYERS,
    Stamp,
    check_room,
    count_weights,
    folder_fingerprint,
    quiet,
    stamp_of,
)
from mars.lines import object_in

CACHE_VARIABLE = "MARS_CACHE"
MANIFEST = "manifest.json"
_FORMAT = 1  # to be raised when `convert` writes something else: folders of another format are made again
_ABANDONED_SECONDS = 86_400
_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})")
ARCHITECTURES = ("llama", "qwen2")
_BROKEN = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError)
_READ, _WEIGHTS, _TOKENIZER = 0.25, 0.65, 0.85
"""Shares of the work that are done when the file has been read, the weights have been converted, the tokenizer too."""


def cache_folder() -> Path:
    """The folder of converted checkpoints: the environment's MARS_CACHE, else the user's cache directory."""
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named).expanduser()
    from platformdirs import user_cache_dir  # not everywhere where a folder was named

    return Path(user_cache_dir("mars-lens", appauthor=False))


def converted(file: Path, name: str, progress: Progress | None = None) -> Path:
    """The checkpoint folder of a GGUF file, converted unless that has been done; `name` is for the sentences.

    CheckpointError where the file is no whole Llama or Qwen2 model, or the cache cannot be written.
    """
    tell = progress or (lambda sentence, share: None)
    tell(f"reading {name}", 0.0)
    file = parts_of(file)[0]
    try:
        hashes = [file_hash(part) for part in parts_of(file)]
        digest = hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
        folder = cache_folder() / f"{file.stem}-{digest[:16]}"
        if _is_whole(folder):
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _lock(folder, name, tell):
            if not _is_whole(folder):
                _make(file, folder, digest, tell)
            return folder
    except OSError as error:
        raise CheckpointError(
            f"{name} cannot be converted in {cache_folder()} ({error.strerror or error}): make room there, or set "
            f"{CACHE_VARIABLE} to a folder that can be written"
        ) from error


def parts_of(file: Path) -> list[Path]:
    """The files of a model that was split, by the name of any of them; of every other model the file itself."""
    named = _PART.fullmatch(file.stem)
    if named is None:
        return [file]
    count = int(named[3])
    parts = [file.with_name(f"{named[1]}-{number:05}-of-{named[3]}{file.suffix}") for number in range(1, count + 1)]
    missing = [part.name for part in parts if not part.is_file()]
    if missing or not parts:
        raise CheckpointError(
            f"{file} is part {int(named[2])} of {count}, and {', '.join(missing[:3])} is not beside it: put all parts "
            "into one folder"
        )
    return parts


def known_fingerprint(folder: Path) -> str:
    """The fingerprint of the weights in a folder: a converted one has it in its manifest."""
    whole = _is_whole(folder)
    return str(_manifest(folder)["fingerprint"]) if whole else _fingerprint(folder, stamp_of(folder.iterdir()))


def file_hash(file: Path) -> str:
    """The hexadecimal SHA-256 of a file, taken once while its size and its time of change stand."""
    stat = file.stat()
    return _hash(file, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=64)
def _hash(file: Path, size: int, changed: int) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@lru_cache(maxsize=64)
def _fingerprint(folder: Path, stamp: Stamp) -> str:
    return folder_fingerprint(folder)


def _make(file: Path, folder: Path, digest: str, tell: Progress) -> None:
    """Convert into a folder beside the place, and rename it; the lock is held."""
    for left in folder.parent.glob("*.part-*"):  # of a process that was ended
        if left.name.startswith(f"{folder.name}.") or time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
            shutil.rmtree(left, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
    try:
        convert(file, part, tell)
        hashes = {made.name: file_hash(made) for made in sorted(part.iterdir())}
        manifest = {
            "format": _FORMAT,
            "source": {"file": file.name, "sha256": digest},
            "fingerprint": folder_fingerprint(part),
            "files": hashes,
        }
        with (part / MANIFEST).open("w", encoding="utf-8") as opened:
            json.dump(manifest, opened, indent=2)
            opened.flush()
            os.fsync(opened.fileno())
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _is_whole(folder: Path) -> bool:
    """Whether the folder is what its manifest says."""
    manifest = _manifest(folder)
    if manifest.get("format") != _FORMAT:
        return False
    files = [file for file in folder.iterdir() if file.name != MANIFEST]
    return all(map(Path.is_file, files)) and {file.name: file_hash(file) for file in files} == manifest["files"]


def _manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder; empty where there is none, or not a whole one."""
    found = object_in(folder / MANIFEST)
    return found if {"format", "source", "fingerprint", "files"} <= found.keys() else {}


def _lock(folder: Path, name: str, tell: Progress) -> AbstractContextManager[object]:
    """A context in which no other process makes the folder."""
    lock = FileLock(folder.with_name(f"{folder.name}.lock"))
    try:
        return lock.acquire(timeout=0)
    except Timeout:
        tell(f"another process converts {name}", 0.0)
        return lock.acquire()


def convert(file: Path, folder: Path, progress: Progress) -> None:
    """Write the model of a GGUF file into a folder that is there and empty."""
    from gguf import GGUFReader  # late: few checkpoints are such files

    readers = []
    for part in parts_of(file):
        with _whole(part):
            readers.append(GGUFReader(part))
    reader, tensors = readers[0], [tensor for one in readers for tensor in one.tensors]
    _check_kind(file, reader, len(readers), {tensor.name for tensor in tensors})
    progress(f"reading the configuration of {file.name}", _READ / 2)
    config = _config(file, reader, tied=all(tensor.name != "output.weight" for tensor in tensors))
    check_room(file, count_weights(config), sum(int(tensor.n_elements) for tensor in tensors))
    with torch.device("meta"):
        model = MODELS[config.model_type][1](config)
    wanted = {name: weight.shape for name, weight in model.state_dict().items()}
    processor = TENSOR_PROCESSORS.get(config.model_type, TensorProcessor)(config=config.to_dict())
    state, names = {}, get_gguf_hf_weights_map(model, processor)
    for number, (name, weight) in enumerate(_weights(file, tensors, processor, names)):
        state[name] = weight
        share = _READ + (_WEIGHTS - _READ) * number / len(tensors)
        progress(f"converting the weights of {file.name}", share)
    if config.tie_word_embeddings:
        wanted.pop("lm_head.weight", None)
    _check_complete(file, state, wanted)
    progress(f"reading the tokenizer of {file.name}", _WEIGHTS)
    tokenizer = _tokenizer(file)
    prefixed = reader.get_field("tokenizer.ggml.add_space_prefix")
    if prefixed is not None and not prefixed.contents():
        _leave_out_prefix(tokenizer.backend_tokenizer)
    progress(f"saving {file.name}", _TOKENIZER)
    config.architectures, config.dtype = [MODELS[config.model_type][1].__name__], torch.bfloat16
    config.save_pretrained(folder)
    GenerationConfig.from_model_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    progress(f"saved {file.name}", 1.0)


def _check_kind(file: Path, reader: Any, parts: int, tensors: Collection[str]) -> None:
    """Raise CheckpointError for a model that the folder could not hold as it is, or whose parts are not all there."""
    field = reader.get_field("general.architecture")
    architecture = field.contents() if field else None
    names = ("split.no", "split.count", f"{architecture}.block_count")
    with _whole(file):
        number, count, layers = (int(found.contents()) if (found := reader.get_field(name)) else 0 for name in names)
    if count > 1 and count != parts:
        raise CheckpointError(
            f"{file} is part {number + 1} of {count}: put all parts into one folder, called "
            f"NAME-00001-of-{count:05}.gguf and so on"
        )
    if architecture not in ARCHITECTURES:
        raise CheckpointError(
            f"{file} holds a model of architecture {architecture!r}, only {' and '.join(ARCHITECTURES)} can be read: "
            "take such a model"
        )
    if layers > MOST_LAYERS:
        raise CheckpointError(f"{file} describes {layers:,} layers, at most {MOST_LAYERS:,} are read: {AGAIN}")
    scaling = reader.get_field(f"{architecture}.rope.scaling.type")
    scaled = scaling is not None and scaling.contents() != "none"
    if scaled or "rope_freqs.weight" in tensors:
        raise CheckpointError(
            f"{file} scales its rotary positions, which a GGUF file does not say in full: take the safetensors of the "
            "same model from the Hub"
        )


def _config(file: Path, reader: Any, tied: bool) -> PreTrainedConfig:
    """The configuration as `transformers` reads it, which would take the file's vocabulary apart once more for it."""
    architecture = reader.get_field("general.architecture").contents()
    keys = {f"{architecture}.{key}": name for key, name in GGUF_CONFIG_MAPPING[architecture].items() if name}
    keys |= {f"tokenizer.{key}": name for key, name in GGUF_CONFIG_MAPPING["tokenizer"].items()}
    kinds = (StrictDataclassError, *_BROKEN)
    with failing(f"{file} describes no {architecture} model", AGAIN, *kinds):
        found = {name: field.contents() for key, name in keys.items() if (field := reader.get_field(key))}
        found.setdefault("vocab_size", len(reader.get_field("tokenizer.ggml.tokens").data))
        config = MODELS[architecture][0](**found, tie_word_embeddings=tied)
        count_weights(config)
    return config


def _weights(
    file: Path, tensors: Iterable[Any], processor: TensorProcessor, names: Mapping[str, str]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Name and bfloat16 values of each weight, as `transformers` calls and orders them."""
    from gguf import dequantize

    for tensor in tensors:
        name = names.get(tensor.name)
        if name is None:
            raise CheckpointError(f"{file} has a weight {tensor.name} that no such model has")
        with _whole(file):
            plain = dequantize(tensor.data, tensor.tensor_type)
            weight = torch.tensor(processor.process(plain, name=tensor.name).weights)
        yield name, weight.to(torch.bfloat16).contiguous()


def _check_complete(file: Path, state: dict[str, torch.Tensor], wanted: dict[str, torch.Size]) -> None:
    wrong = sorted(name for name, shape in wanted.items() if name not in state or state[name].shape != shape)
    wrong += sorted(state.keys() - wanted.keys())
    if wrong:
        raise CheckpointError(
            f"{file} describes a model and has not its weights, {wrong[0]} is the first of {len(wrong)} wrong ones: "
            "download it again"
        )


def _tokenizer(file: Path) -> Any:
    what, fix = f"the tokenizer in {file} cannot be read", "take another file of this model"
    with failing(what, fix, Exception), quiet():  # the tokenizers library raises no narrower kind
        return PreTrainedTokenizerFast.from_pretrained(file.parent, gguf_file=file.name, local_files_only=True)


def _leave_out_prefix(tokenizer: Tokenizer) -> None:
    """Have a tokenizer of SentencePiece's kind begin no text with a space, which `transformers` always does."""
    if isinstance(tokenizer.pre_tokenizer, pre_tokenizers.Metaspace):
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
        parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        tokenizer.decoder = decoders.Sequence(parts)


def _whole(file: Path) -> AbstractContextManager[None]:
    return failing(f"{file} is no whole GGUF file", AGAIN, *_BROKEN)
