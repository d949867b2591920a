"""Command line of the training stages."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Collection, Sequence
from dataclasses import MISSING, fields
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from safetensors import SafetensorError

from mars.decoders import load
from mars.options import SOURCES
from mars.training.settings import AdapterSettings, DistillSettings, PairSettings, TrainingSettings

DESCRIPTION = """\
Train in two stages (MARS, arXiv 2604.07023).

  sft   ordinary supervised fine-tuning on the responses of conversations
  mars  the same data again, with a second, masked copy of each sequence: the model learns to fill B masks
        appended to a clean prefix in one causal pass, while the SFT loss keeps it an autoregressive model

or, for a pretrained model, as a LoRA

  distill  conversations that the model writes itself, as data for its adapter (docs/adapters.md)
  adapter  a MARS adapter on that model, which is merged into it when it is loaded
  pair  both stages on a pretrained model, as adapters: its data, AR SFT, then MARS from it
"""
EXAMPLES = """\
examples:
  a pair of small models, from nothing but this repository: the cards in assets/checkpoints have the commands

  MARS-tune a checkpoint of your own on your own chats (JSONL: {"messages": [{"role": …, "content": …}, …]} a line):
    python -m mars.training sft  --output runs/qwen-sft --checkpoint Qwen/Qwen2.5-0.5B-Instruct --data chats.jsonl
    python -m mars.training mars --output runs/qwen-mars --checkpoint runs/qwen-sft --data chats.jsonl --block-size 4

  several GPUs:       accelerate launch -m mars.training mars …
  after an interruption: the same command with --resume
"""


def parser() -> argparse.ArgumentParser:
    """The commands; their options are the fields of the settings."""
    main = argparse.ArgumentParser(
        prog="python -m mars.training",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    stages = main.add_subparsers(dest="stage", required=True, metavar="{sft,mars,distill,adapter,pair}")

    def add(name: str, text: str, settings: Any, without: Collection[str] = (), epilog: str | None = None) -> Any:
        stage = stages.add_parser(name, help=text, epilog=epilog, formatter_class=_Help)
        kinds = get_type_hints(settings)
        for each in fields(settings):
            if "help" in each.metadata and each.name not in without:
                _add_option(stage, each, kinds[each.name])
        return stage

    add("sft", "stage 1: AR SFT", TrainingSettings, ("block_size", "sft_loss"), EXAMPLES)
    scratch = ("layers", "hidden_size", "tokenizer")
    add("mars", "stage 2: MARS, from an SFT checkpoint", TrainingSettings, scratch, EXAMPLES)
    distill = add("distill", "write conversations to train an adapter on", DistillSettings)
    distill.add_argument("--checkpoint", required=True, help=f"{SOURCES}: the model that writes")
    add("adapter", "train a MARS adapter on a base model", AdapterSettings)
    add("pair", "an SFT adapter and a MARS adapter from it", PairSettings)
    return main


def _add_option(stage: argparse.ArgumentParser, field: Any, kind: Any) -> None:
    """An option for a field; one that is true by default gets --no-NAME."""
    name, default, required = field.name.replace("_", "-"), field.default, field.default is MISSING
    options: dict[str, Any] = {"dest": field.name, "help": field.metadata["help"]}
    if kind is bool:
        options["action"] = "store_false" if default else "store_true"
    else:
        options |= {"required": True} if required else {"default": default}
        if get_origin(kind) is Literal:
            options["choices"] = get_args(kind)
        elif get_origin(kind) is tuple:
            options |= {"nargs": "+" if required else "*", "metavar": "FILE"}
        else:
            options["type"] = next(one for one in (*get_args(kind), kind) if one is not NoneType)
    stage.add_argument(f"--no-{name}" if default is True else f"--{name}", **options)


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Help that shows the defaults that are numbers or words, and keeps the line breaks of the examples."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        no_default = action.default is None or action.default == () or isinstance(action.default, bool)
        return action.help if no_default else super()._get_help_string(action)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a stage; exit status 2 with one sentence on bad input."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = parser().parse_args(words)
    command = shlex.join(["python", "-m", "mars.training", *words])
    try:
        _run(options, command)
    except (ValueError, OSError, SafetensorError) as error:  # the last two: what cannot be written
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        again = "" if options.stage in ("pair", "distill") else " with --resume"
        saved = not again or any(Path(options.output, "work").glob("checkpoint-*/trainer_state.json"))
        then = f"the same command{again} goes on from what is saved" if saved else "no step is saved yet"
        sys.stderr.write(f"stopped: {then}\n")
        return 130
    return 0


def _run(options: argparse.Namespace, command: str) -> None:
    """Run the stage that was asked for; torch is imported only now, after the options are known to be right."""
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in vars(options).items()}
    stage = values.pop("stage")
    if stage == "distill":
        checkpoint = values.pop("checkpoint")
        load("mars.training.distill:distill")(checkpoint, DistillSettings(**values))
        return
    kinds: dict[str, tuple[Any, str]] = {
        "pair": (PairSettings, "mars.training.pair:train_pair"),
        "adapter": (AdapterSettings, "mars.training.adapter_run:train_adapter"),
    }
    kind, function = kinds.get(stage, (partial(TrainingSettings, stage=stage), "mars.training.run:train"))
    settings = kind(**values)
    load(function)(settings, command)


if __name__ == "__main__":
    sys.exit(main())
