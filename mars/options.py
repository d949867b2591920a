"""Options of every command that runs a decoder, and the settings they make."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any, Final

from mars import decoders
from mars.config import DEFAULT_BLOCK_SIZE, DEFAULT_THRESHOLD, DEFAULTS, DEVICES, DTYPES, SETTINGS, DecodingSettings

DEFAULT_ENTROPY = 0.3
DEFAULT: Final = "default"
SOURCES = "checkpoint folder, Hub id, GGUF file or smollm2-135m"
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_SAID = {"block_size": f"as trained, else {DEFAULT_BLOCK_SIZE}", "temperature": "0", "top_p": "1"}
_NEEDS = {"causal": "any checkpoint", "masks": "a MARS checkpoint"}


def add_decoding_options(parser: argparse.ArgumentParser) -> None:
    """Add --checkpoint, --decoder, --threshold and the other options that say how to decode."""
    add = parser.add_argument
    add("--checkpoint", required=True, metavar="SOURCE", help=f"{SOURCES}, or the folder of an adapter")
    drafted = decoders.names(decoders.drafted())
    add("--draft", metavar="SOURCE", help=f"the same, of the model that drafts, for {drafted}")
    add_base_options(parser)
    add("--decoder", required=True, metavar="NAME", help=_decoder_help())
    for name, setting in SETTINGS.items():
        if setting.about:
            add_setting(parser, name)
    add_device_options(parser)


def add_base_options(parser: argparse.ArgumentParser) -> None:
    """Add --base and --allow-other-base, which say what model an adapter runs on; others have no use for them."""
    add = parser.add_argument
    add("--base", metavar="SOURCE", help="the base of an adapter (default: the one that it was trained on)")
    add("--allow-other-base", action="store_true", help="run an adapter on a base with other weights as well")


def add_device_options(parser: argparse.ArgumentParser, *, dtype: bool = True) -> None:
    """Add --device and, unless told otherwise, --dtype."""
    parser.add_argument("--device", default="auto", choices=DEVICES, help="default: CUDA where there is one")
    if dtype:
        about = "default: bfloat16 on CUDA, and on a CPU with kernels for it (AVX2 or more); tiny models float32"
        parser.add_argument("--dtype", default="auto", choices=("auto", *DTYPES), help=about)


def _decoder_help() -> str:
    """The names of the table, by the model that they need."""
    table = list(decoders.TABLE.values())
    parts = [
        f"for {words}: {decoders.names(found)}"
        for needs, words in _NEEDS.items()
        if (found := [decoder for decoder in table if decoder.needs == needs and not decoder.draft])
    ]
    return "; ".join([*parts, f"with --draft: {decoders.names(decoders.drafted())}"])


def add_setting(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the option of this field of `DecodingSettings`."""
    setting, default = SETTINGS[name], DEFAULTS[name]
    options: dict[str, Any] = {}
    if isinstance(default, bool):
        options["action"] = "store_true"
    elif setting.control == "threshold":
        options |= {"type": parse_threshold, "default": DEFAULT, "metavar": setting.metavar}
    else:
        options |= {"type": type(default), "default": None if name == "block_size" else default}
        options |= {"metavar": setting.metavar} if setting.metavar else {"choices": setting.choices}
    parser.add_argument(f"--{_option(name)}", help=_help(name), **options)


def _option(name: str) -> str:
    """The name of a setting on a command line, without the dashes in front."""
    return SETTINGS[name].option or name.replace("_", "-")


def _help(name: str) -> str:
    """A setting in words, its default, and the decoders that read it, or ignore it where these are fewer."""
    setting, default = SETTINGS[name], DEFAULTS[name]
    if setting.control == "threshold":
        said = f" (default: {DEFAULT_THRESHOLD}, for entropy {DEFAULT_ENTROPY} nats)"
    elif isinstance(default, bool | str):
        said = ""
    else:
        said = f" (default: {_SAID.get(name, default)})"
    return f"{setting.about}{said}{_readers(name)}"


def _readers(name: str) -> str:
    readers = [decoder for decoder in decoders.TABLE.values() if name in decoder.settings]
    others = [decoder for decoder in decoders.TABLE.values() if decoder not in readers]
    if not readers or not others:
        return ""
    if len(others) < len(readers):
        return f"; ignored by {decoders.names(others)}"
    return f"; for {decoders.names(readers)}"


def parse_host(text: str) -> str:
    """The name of a host in lower case, `*.example.org` for every name below; ArgumentTypeError for anything else."""
    if not _HOST.fullmatch(text):
        raise argparse.ArgumentTypeError(f"must be a name such as lens.example.org, without a port, got {text!r}")
    return text.lower()


def parse_threshold(text: str) -> float | str | None:
    """A number, None for "none", or DEFAULT: the default of the score, which is known only later.

    Raises:
        argparse.ArgumentTypeError: it is none of these.
    """
    if text in ("none", DEFAULT):
        return None if text == "none" else DEFAULT
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number or none, got {text!r}") from None


def whole(lowest: int, highest: int) -> Callable[[str], int]:
    """A type for `argparse`: a whole number in this range."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and lowest <= int(text) <= highest):
            raise argparse.ArgumentTypeError(f"must be a whole number from {lowest} to {highest}, got {text!r}")
        return int(text)

    return parse


def usual_threshold(decoder: str, score: str) -> float:
    """τ unless one is given: that of the score, if the decoder heeds it."""
    entropy = score == "entropy" and "score" in decoders.TABLE[decoder].settings
    return DEFAULT_ENTROPY if entropy else DEFAULT_THRESHOLD


def decoding_settings(options: argparse.Namespace, trained_block_size: int | None) -> DecodingSettings:
    """The settings that parsed `options` ask for, with the checkpoint's block size unless another is given.

    ValueError names the setting that is out of range.
    """
    threshold = options.threshold
    if threshold == DEFAULT:
        threshold = usual_threshold(options.decoder, options.score)
    block_size = options.block_size
    if block_size is None:
        block_size = trained_block_size or DEFAULT_BLOCK_SIZE
    given = {
        name: getattr(options, _option(name).replace("-", "_")) for name, setting in SETTINGS.items() if setting.about
    }
    return DecodingSettings(**{**given, "threshold": threshold, "block_size": block_size})
