"""Options of every command that runs a decoder, and the settings they make."""

from __future__ import annotations

import argparse
from typing import Final, get_args

from mars.config import DEFAULT_THRESHOLD, DecodingSettings, LayoutName

DEFAULT_BLOCK_SIZE = 8
DEFAULT_ENTROPY = 0.3
DEFAULT: Final = "default"


def add_decoding_options(parser: argparse.ArgumentParser, *, tasks_decide: bool = False) -> None:
    """Add --checkpoint, --decoder, --threshold and the other options that say how to decode.

    With `tasks_decide`, --max-new-tokens, --temperature and --top-p are None by default: each task has its own.
    """
    add = parser.add_argument
    add("--checkpoint", required=True, metavar="DIR", help="checkpoint folder or Hub id")
    add("--draft", metavar="DIR", help="checkpoint folder or Hub id of the model that drafts, for speculative")
    add(
        "--decoder",
        required=True,
        metavar="NAME",
        help="autoregressive, jacobi or (with --draft) speculative; for a MARS checkpoint also sliding_window, "
        "block_cached or self_speculative; block_diffusion for a checkpoint that was trained for it",
    )
    add(
        "--threshold",
        type=parse_threshold,
        default=DEFAULT,
        metavar="T",
        help="proposals after the first are accepted while their score meets it; none is one-token mode "
        f"(default: {DEFAULT_THRESHOLD}, for entropy {DEFAULT_ENTROPY} nats); autoregressive, jacobi and "
        "self_speculative ignore it",
    )
    add("--score", default="probability", metavar="NAME", help="probability (default), margin or entropy")
    add(
        "--block-size",
        type=int,
        metavar="B",
        help="tokens proposed per pass; self_speculative has B-1 drafts (default: as trained, else 8)",
    )
    add("--extra-proposal", action="store_true", help="also offer the prediction of the last mask, the B+1-th")
    _add_writing_options(parser, tasks_decide)
    _add_method_options(parser)
    add("--dtype", default="auto", choices=("auto", "float32", "bfloat16"), help="default: bfloat16 on CUDA only")
    add("--device", default="auto", choices=("auto", "cpu", "cuda"), help="default: CUDA where there is one")


def _add_writing_options(parser: argparse.ArgumentParser, tasks_decide: bool) -> None:
    defaults = DecodingSettings()
    add = parser.add_argument
    for option, default, shown, metavar, what in (
        ("--max-new-tokens", defaults.max_new_tokens, defaults.max_new_tokens, "N", "most tokens written"),
        ("--temperature", defaults.temperature, 0, "X", "above 0 tokens are drawn; 0 takes the most probable one"),
        ("--top-p", defaults.top_p, "1, from all", "P", "draw from the smallest set of tokens whose mass reaches P"),
    ):
        add(
            option,
            type=type(default),
            default=None if tasks_decide else default,
            metavar=metavar,
            help=f"{what} (default: {'as the task says' if tasks_decide else shown})",
        )
    add(
        "--sampling-seed",
        type=int,
        default=defaults.seed,
        metavar="S",
        help="the same seed draws the same text, whatever the batch (default: 0)",
    )


def _add_method_options(parser: argparse.ArgumentParser) -> None:
    defaults = DecodingSettings()
    add = parser.add_argument
    add(
        "--layout",
        default=defaults.layout,
        choices=get_args(LayoutName),
        help="where self_speculative puts its masks: behind the last draft (linear), behind every prefix of the drafts "
        "(quadratic), or wherever pays most, one-token passes included (auto, the default)",
    )
    add(
        "--cache-block-size",
        type=int,
        default=defaults.cache_block_size,
        metavar="N",
        help=f"tokens that block_cached writes before it caches them (default: {defaults.cache_block_size})",
    )
    add(
        "--draft-tokens",
        type=int,
        default=defaults.draft_tokens,
        metavar="K",
        help=f"drafts or guesses that a pass of speculative or jacobi verifies (default: {defaults.draft_tokens})",
    )
    add(
        "--continuation",
        action="store_true",
        help="speculative: after the verified tokens, accept proposals of the target's masks by --threshold",
    )


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


def decoding_settings(options: argparse.Namespace, trained_block_size: int | None) -> DecodingSettings:
    """The settings that parsed `options` ask for, with the checkpoint's block size unless another is given.

    Raises:
        ValueError: names the setting that is out of range.
    """
    threshold = options.threshold
    if threshold == DEFAULT:
        threshold = DEFAULT_ENTROPY if options.score == "entropy" else DEFAULT_THRESHOLD
    block_size = options.block_size
    if block_size is None:
        block_size = trained_block_size or DEFAULT_BLOCK_SIZE
    return DecodingSettings(
        block_size=block_size,
        threshold=threshold,
        score=options.score,
        max_new_tokens=options.max_new_tokens,
        extra_proposal=options.extra_proposal,
        temperature=options.temperature,
        top_p=options.top_p,
        seed=options.sampling_seed,
        layout=options.layout,
        cache_block_size=options.cache_block_size,
        draft_tokens=options.draft_tokens,
        continuation=options.continuation,
    )
