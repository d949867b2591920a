"""Write the answer to one prompt: `python -m mars.generate --help`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from mars.config import DEFAULT_THRESHOLD, DecodingSettings
from mars.metrics import Tally
from mars.records import to_json
from mars.text import TextPieces, printable

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint

DEFAULT_BLOCK_SIZE = 8
DEFAULT_ENTROPY = 0.3
ENDINGS = {"stop": "the end of the turn", "length": "max_new_tokens", "cancelled": "a stop", None: "a stop"}
COLOURS = ("\x1b[36m", "\x1b[33m")
RESET = "\x1b[0m"
BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 2, 130, 141

EPILOG = """\
examples:
  python -m mars.generate --checkpoint assets/checkpoints/mars-b8 --decoder sliding_window --threshold 0.9 \\
      --prompt "Tom has 3 apples and buys 4 more. How many has he?" --records run.jsonl
  python -m mars.generate --checkpoint assets/checkpoints/ar-sft --decoder autoregressive --prompt "..."

On a terminal the colour changes with every forward pass. NO_COLOR=1 turns colours off.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code: 0, 2 for bad input, 130 when interrupted, 141 when the reader left."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except ValueError as error:
        sys.stderr.write(f"mars.generate: {error}\n")
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has left; what Python still holds for it must not raise once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


class Painter:
    """Writes text to a stream, in a colour that changes with every pass if the stream is a terminal."""

    def __init__(self, stream: TextIO, environment: dict[str, str]) -> None:
        self._stream = stream
        self._colours = stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"

    def write(self, text: str, number: int) -> None:
        """Write what pass `number` added."""
        text = printable(text)
        if text and self._colours:
            text = f"{COLOURS[number % len(COLOURS)]}{text}{RESET}"
        self._stream.write(text)
        self._stream.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m mars.generate",
        description="Write the answer to one prompt: the text to stdout, a summary to stderr.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--checkpoint", required=True, metavar="DIR", help="checkpoint folder or Hub id")
    add("--decoder", required=True, metavar="NAME", help="autoregressive, or sliding_window for a MARS checkpoint")
    add("--prompt", required=True, metavar="TEXT", help="what the user says")
    add(
        "--threshold",
        type=_threshold,
        default="default",
        metavar="T",
        help="proposals after the first are accepted while their score meets it; none is one-token mode "
        f"(default: {DEFAULT_THRESHOLD}, for entropy {DEFAULT_ENTROPY} nats)",
    )
    add("--score", default="probability", metavar="NAME", help="probability (default), margin or entropy")
    add("--block-size", type=int, metavar="B", help="tokens proposed per pass (default: as trained, else 8)")
    add("--extra-proposal", action="store_true", help="also offer the prediction of the last mask, the B+1-th")
    add("--max-new-tokens", type=int, default=192, metavar="N", help="most tokens written (default: 192)")
    add("--dtype", default="auto", choices=("auto", "float32", "bfloat16"), help="default: bfloat16 on CUDA only")
    add("--device", default="auto", choices=("auto", "cpu", "cuda"), help="default: CUDA where there is one")
    add("--records", type=Path, metavar="FILE.jsonl", help="write the record of every pass, one JSON object a line")
    return parser


def _threshold(text: str) -> float | str | None:
    if text in ("none", "default"):
        return None if text == "none" else text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number or none, got {text!r}") from None


def _run(options: argparse.Namespace) -> int:
    if not options.prompt.strip():
        raise ValueError("--prompt is empty: say what the model should answer")
    with _open(options.records) as records:
        # Imported late, so that --help and a wrong option answer at once.
        from mars.checkpoint import load_checkpoint
        from mars.decoding import DECODERS

        if options.decoder not in DECODERS:
            raise ValueError(f"--decoder must be one of {', '.join(DECODERS)}, got {options.decoder!r}")
        _settings(options, DEFAULT_BLOCK_SIZE)
        checkpoint = load_checkpoint(options.checkpoint, dtype=options.dtype, device=options.device)
        settings = _settings(options, checkpoint.block_size or DEFAULT_BLOCK_SIZE)
        prompt = checkpoint.encode(options.prompt)
        tally = Tally()
        pieces = TextPieces(checkpoint.decode)
        painter = Painter(sys.stdout, dict(os.environ))
        for record in DECODERS[options.decoder](checkpoint.engine, [prompt], settings):
            tally.add(record)
            if records is not None:
                records.write(to_json(record) + "\n")
            painter.write("".join(map(pieces.add, record.rows[0].accepted_ids)), record.index)
        painter.write(pieces.flush(), tally.model_calls)
    sys.stdout.write("\n")
    sys.stdout.flush()
    sys.stderr.write(_summary(tally, checkpoint))
    return 0


def _open(path: Path | None) -> TextIO | nullcontext[None]:
    if path is None:
        return nullcontext()
    try:
        return path.open("w", encoding="utf-8")
    except OSError as error:
        raise ValueError(f"--records {path} cannot be written: {error.strerror}") from error


def _settings(options: argparse.Namespace, block_size: int) -> DecodingSettings:
    threshold = options.threshold
    if threshold == "default":
        threshold = DEFAULT_ENTROPY if options.score == "entropy" else DEFAULT_THRESHOLD
    return DecodingSettings(
        block_size=block_size if options.block_size is None else options.block_size,
        threshold=threshold,
        score=options.score,
        max_new_tokens=options.max_new_tokens,
        extra_proposal=options.extra_proposal,
    )


def _summary(tally: Tally, checkpoint: Checkpoint) -> str:
    return (
        f"{checkpoint.name}: {tally.tokens} tokens in {tally.passes} passes, "
        f"{tally.tokens_per_forward:.2f} tokens/forward, {tally.tokens_per_second:.0f} tok/s, "
        f"ended by {ENDINGS[tally.rows[0].finish_reason]}\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())
