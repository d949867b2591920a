"""The files of a checkpoint folder: what they must hold, sentences for when they do not, and the weights' fingerprint.

The fingerprint depends on neither dtype nor files: an adapter is trained for the values of one base, and the record
beside it names them by it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError, safe_open
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)
from transformers.utils import logging

from mars.chat import check_template
from mars.checkpoint.errors import CheckpointError, failing

MODELS: dict[str, tuple[type[PreTrainedConfig], type[PreTrainedModel]]] = {
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "llama": (LlamaConfig, LlamaForCausalLM),
    "a2d-qwen2": (Qwen2Config, Qwen2ForCausalLM),
}
Stamp = tuple[tuple[str, int, int], ...]
"""Name, size and time of change of each file: while they stand, nothing needs to be read again."""
AGAIN = "copy or download it again"
MOST_LAYERS = 10_000
_SLACK = 2**24  # weights: what lacks fewer is said in the words of the shapes
_LAYER = re.compile(r"model\.layers\.(\d{1,9})\.")
_HEAD, _EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
_models: weakref.WeakValueDictionary[object, PreTrainedModel] = weakref.WeakValueDictionary()
_loading = threading.Lock()


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    with failing(f"{path} cannot be read as JSON", AGAIN, OSError, ValueError):
        data = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict):
        raise CheckpointError(f"{path} must hold a JSON object, got {type(data).__name__}: {AGAIN}")
    return data


def read_config(folder: Path) -> tuple[str, PreTrainedConfig]:
    """The `model_type` as written and the configuration of the plain architecture behind it."""
    path = folder / "config.json"
    if not path.is_file():
        raise CheckpointError(f"{path} is missing: give a folder with config.json, *.safetensors and tokenizer.json")
    data = read_json(path)
    model_type = data.get("model_type")
    if not isinstance(model_type, str) or model_type not in MODELS:
        raise CheckpointError(
            f"{path}: model_type must be one of {', '.join(MODELS)}, got {model_type!r}; use such a model"
        )
    if data.get("quantization_config"):
        raise CheckpointError(f"{path} has a quantization_config: take the model's unquantised weights, or a GGUF file")
    foreign = ("model_type", "architectures", "auto_map", "num_labels", "id2label", "label2id")
    kinds = (StrictDataclassError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
    with failing(f"{path} describes no {model_type} model", "download it again", *kinds):
        if not 0 < int(data.get("num_hidden_layers", 1)) <= MOST_LAYERS:  # a list as long is made of it
            raise ValueError(f"num_hidden_layers must be from 1 to {MOST_LAYERS}")
        config = MODELS[model_type][0].from_dict({key: value for key, value in data.items() if key not in foreign})
        count_weights(config)
        if config.max_position_embeddings < 1:
            raise ValueError("max_position_embeddings must be at least 1")
    if set(getattr(config, "layer_types", None) or ()) - {"full_attention"}:
        raise CheckpointError(f"{path}: only full attention is supported; set use_sliding_window to false")
    return model_type, config


def count_weights(config: PreTrainedConfig) -> int:
    """About how many weights a Qwen2 or Llama has: those of its matrices. ValueError unless its sizes are above 0."""
    hidden, heads = config.hidden_size, config.num_attention_heads
    size = getattr(config, "head_dim", None) or hidden // heads
    attention = 2 * (heads + config.num_key_value_heads) * size * hidden
    layer = attention + 3 * hidden * config.intermediate_size
    vocabulary = (1 if config.tie_word_embeddings else 2) * config.vocab_size * hidden
    if min(config.num_hidden_layers, layer, vocabulary) < 1:
        raise ValueError("a size in it is not above 0")
    return int(config.num_hidden_layers * layer + vocabulary)


def load_tokenizer(folder: Path, vocab_size: int | None = None) -> PreTrainedTokenizerBase:
    """The tokenizer exactly as `tokenizer.json` describes it, for a model of so many embeddings."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise CheckpointError(f"{path} is missing: copy tokenizer.json and tokenizer_config.json into the folder")
    with failing(f"{path} is broken", AGAIN, Exception):  # the tokenizers library raises no narrower kind
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
        tokenizer("a")  # which shows settings of the wrong kind
    tokens = max(len(tokenizer), 1 + max(tokenizer.get_vocab().values(), default=-1))  # ids may leave numbers out
    if vocab_size is not None and tokens > vocab_size:
        raise CheckpointError(
            f"{path} has {tokens} tokens, but config.json says vocab_size {vocab_size}: take the tokenizer "
            "that belongs to these weights"
        )
    try:
        check_template(tokenizer)
    except ValueError as error:
        raise CheckpointError(f"{folder}: {error}") from error
    return tokenizer


def load_model(folder: Path, model_type: str, config: PreTrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    """The model with every weight from the folder's safetensors files, on the CPU."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise CheckpointError(f"{folder} has no *.safetensors: download the weights, or save them in that format")
    _check_files(folder, files, count_weights(config))
    kinds = (OSError, ValueError, RuntimeError, KeyError, SafetensorError)
    with failing(f"the weights in {folder} do not load", "download them again", *kinds), quiet():
        model, report = MODELS[model_type][1].from_pretrained(
            folder,
            config=config,
            dtype=dtype,
            attn_implementation="sdpa",
            local_files_only=True,
            use_safetensors=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    _check_complete(files[0], report, config.num_hidden_layers)
    if model.get_output_embeddings().weight is not model.get_input_embeddings().weight:
        model.config.tie_word_embeddings = False  # or a new row would tie the matrix that the files hold of its own
    return model


def _check_files(folder: Path, files: Sequence[Path], wanted: int) -> None:
    """Raise CheckpointError where what would be loaded is not what `folder_fingerprint` reads, or far too little."""
    places: dict[str, Path] = {}
    there = 0
    for file in files:
        with failing(f"{file} is broken", AGAIN, SafetensorError, OSError), safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 - it is no mapping
                if name in places:
                    raise CheckpointError(f"{file} and {places[name].name} both hold {name}: leave one of them there")
                places[name] = file
                there += math.prod(opened.get_slice(name).get_shape())
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        named = read_json(index).get("weight_map")
        known = {file.name for file in files}
        if not isinstance(named, dict) or not known.issuperset(map(str, named.values())):
            raise CheckpointError(f"{index} names other files than the *.safetensors beside it: {AGAIN}")
    check_room(folder / "config.json", wanted, there)


def check_room(place: Path, wanted: int, there: int) -> None:
    """Raise CheckpointError where memory would be taken for far more weights than there are."""
    if wanted > 2 * there + _SLACK:
        raise CheckpointError(f"{place} describes {wanted:,} weights, the files have {there:,}: download both again")


def shared_model(
    folder: Path, dtype: torch.dtype, device: torch.device, load: Callable[[], PreTrainedModel]
) -> PreTrainedModel:
    """The model in a folder on a device: one that is in use already, else what `load` makes.

    Only its engines may keep it, and nothing may change it. A folder whose weights
    or config.json have been written again is another one.
    """
    key = (folder.resolve(), stamp_of([folder / "config.json", *folder.glob("*.safetensors")]), dtype, str(device))
    with _loading:
        model = _models.get(key)
        if model is None:
            model = _models[key] = load().to(device)
        return model


def stamp_of(files: Iterable[Path]) -> Stamp:
    """The stamp of these files."""
    stats = ((file.name, file.stat()) for file in sorted(files))
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


def folder_fingerprint(folder: Path) -> str:
    """The hexadecimal SHA-256 of the weights in a folder: of each in the order of the names its name, shape and values.

    Values count as bfloat16, so that a model has one fingerprint in float32 and in bfloat16. A vocabulary matrix that
    is the embedding counts once, whether the safetensors files hold it once or twice. They are read one by one.
    OSError or SafetensorError where a file cannot be read.
    """
    with ExitStack() as stack:
        opened = [stack.enter_context(safe_open(file, "pt")) for file in sorted(folder.glob("*.safetensors"))]
        places = {name: file for file in opened for name in file.keys()}  # noqa: SIM118 - it is no mapping

        def read(name: str) -> torch.Tensor:
            return places[name].get_tensor(name).to(torch.bfloat16).contiguous()

        names = set(places)
        if {_HEAD, _EMBEDDING} <= names and torch.equal(read(_HEAD), read(_EMBEDDING)):
            names.remove(_HEAD)
        digest = hashlib.sha256()
        for name in sorted(names):
            weight = read(name)
            digest.update(f"{name} {list(weight.shape)}\n".encode())
            digest.update(weight.reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()


def _check_complete(file: Path, report: dict[str, Any], layers: int) -> None:
    missing, mismatched = sorted(report["missing_keys"]), sorted(map(str, report["mismatched_keys"]))
    if missing or mismatched:
        what = f"lacks {len(missing)} weights" if missing else f"has {len(mismatched)} weights of the wrong shape"
        raise CheckpointError(
            f"{file} {what} for its config.json, {(missing or mismatched)[0]} first: download both again"
        )
    numbers = ((name, _LAYER.match(name)) for name in sorted(report["unexpected_keys"]))
    # A config.json of fewer layers takes the first ones; old files hold the frequencies of rotation.
    left = (name for name, found in numbers if not found or int(found[1]) < layers)
    if unknown := [name for name in left if not name.endswith("inv_freq")]:
        raise CheckpointError(
            f"{file} holds {len(unknown)} weights for which its config.json has no place, {unknown[0]} first: download "
            "both again"
        )


@contextmanager
def quiet() -> Iterator[None]:
    """Without the progress bar and the loading report of transformers: a library does not draw."""
    shown, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()
