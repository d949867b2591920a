"""Command line of the training stages."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from safetensors import SafetensorError

from mars.config import DTYPES
from mars.options import SOURCES
from mars.training.settings import AdapterSettings, DistillSettings, PairSettings, TrainingSettings

Settings = TrainingSettings | DistillSettings | AdapterSettings | PairSettings
DESCRIPTION = """\
Train in two stages (MARS, arXiv 2604.07023).

  sft   ordinary supervised fine-tuning on the responses of conversations
  mars  the same data again, with a second, masked copy of each sequence: the model learns to fill B masks
        appended to a clean prefix in one causal pass, while the SFT loss keeps it an autoregressive model

or, to compare with, from the same SFT checkpoint

  block-diffusion  masks of a block are filled in any order by bidirectional attention inside it (BD3-LM, arXiv
        2503.09573): the model is no autoregressive one any more

or, for a pretrained model that should stay as it is

  distill  conversations that the model writes itself, as data for its adapter
  adapter  a MARS adapter on that model: masks go through a LoRA, real tokens through the model itself
  pair  both stages on a pretrained model, as adapters: its data, AR SFT, then MARS from it
  phrases  what that model often writes, for its adapter: drafts of exact decoding that need no mask
"""
EXAMPLES = """\
examples:
  a pair of small models, from nothing but this repository (the shipped one: see its model card):
    python -m mars.training sft  --output runs/ar --examples 320000 --drill-share 0.3 --optimizer muon \\
        --learning-rate 3e-3 --weight-decay 0.01 --batch-size 64
    python -m mars.training mars --output runs/mars --checkpoint runs/ar --examples 210000 --data-seed 1 \\
        --drill-share 0.1 --optimizer muon --learning-rate 2e-3 --weight-decay 0.01 --batch-size 64
  on two CPU cores: OMP_NUM_THREADS=1 torchrun --nproc_per_node 2 -m mars.training … with
  --batch-size 16 --gradient-accumulation 2, which is how the shipped pair was made

  MARS-tune a checkpoint of your own on your own chats (JSONL: {"messages": [{"role": …, "content": …}, …]} a line):
    python -m mars.training sft  --output runs/qwen-sft --checkpoint Qwen/Qwen2.5-0.5B-Instruct --data chats.jsonl
    python -m mars.training mars --output runs/qwen-mars --checkpoint runs/qwen-sft --data chats.jsonl --block-size 4

  a MARS adapter on a pretrained model (the shipped one: see its card):
    python -m mars.training distill --checkpoint smollm2-135m --output runs/chats.jsonl --self-prompts 3000
    python -m mars.training adapter --base smollm2-135m --data runs/chats.jsonl --output runs/smollm2-mars
    python -m mars.training phrases --base smollm2-135m --data runs/chats.jsonl --output runs/smollm2-mars

  several GPUs:       accelerate launch -m mars.training mars …
  after an interruption: the same command with --resume
"""


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    main = argparse.ArgumentParser(
        prog="python -m mars.training",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = "{sft,mars,block-diffusion,distill,adapter,pair,phrases}"
    stages = main.add_subparsers(dest="stage", required=True, metavar=names)
    sft, mars, diffusion = (
        stages.add_parser(name, help=text, epilog=EXAMPLES, formatter_class=_Help)
        for name, text in (
            ("sft", "stage 1: AR SFT"),
            ("mars", "stage 2: MARS, from an SFT checkpoint"),
            ("block-diffusion", "to compare with, from an SFT checkpoint"),
        )
    )
    for stage in (sft, mars, diffusion):
        _add_common(stage)
    sft.add_argument("--checkpoint", help=f"{SOURCES} to start from; without it, a small model from scratch")
    for option, kind, text in (
        ("--layers", int, "layers of a model from scratch; 4 if not given"),
        ("--hidden-size", int, "width of a model from scratch, in heads of 32; 256 if not given"),
        ("--tokenizer", str, "checkpoint whose vocabulary a model from scratch takes; without it, one is trained"),
    ):
        sft.add_argument(option, type=kind, default=argparse.SUPPRESS, help=text)
    for stage, size, published in ((mars, 8, "4, 8 and 16"), (diffusion, 4, "4")):
        stage.add_argument("--checkpoint", required=True, help=f"{SOURCES}: the SFT checkpoint to start from")
        stage.add_argument("--block-size", type=int, default=size, help=f"masks per block (paper: {published})")
    mars.add_argument(
        "--no-sft-loss",
        dest="sft_loss",
        action="store_false",
        help="train on L_mask alone: the share of AR-like signal falls from (1 + 1/B)/2 to 1/B",
    )
    _add_distill(stages)
    _add_adapter(stages)
    _add_pair(stages)
    _add_phrases(stages)
    return main


def _add(stage: argparse.ArgumentParser, settings: Settings, *options: tuple[str, type | tuple[str, ...], str]) -> None:
    """Add options, each with its type or choices and its help, whose defaults are those of the settings."""
    for option, kind, text in options:
        allowed: Any = {"choices": kind} if isinstance(kind, tuple) else {"type": kind}
        default = getattr(settings, option[2:].replace("-", "_"))
        stage.add_argument(option, default=default, help=text, **allowed)


def _add_distill(stages: Any) -> None:
    stage = stages.add_parser("distill", help="write conversations to train an adapter on", formatter_class=_Help)
    add = stage.add_argument
    add("--checkpoint", required=True, help=f"{SOURCES}: the model that writes")
    add("--output", required=True, help="JSONL file; the same command goes on after an interruption")
    about = "JSONL (FILE:FIELD names the text's field) or plain text"
    add("--prompts", nargs="*", default=(), metavar="FILE", help=about)
    add("--self-prompts", type=int, default=0, help="prompts that the model writes itself (Magpie)")
    _add(
        stage,
        DistillSettings(output="", self_prompts=1),
        ("--second-turns", float, "share of conversations with a second turn"),
        ("--places", int, "conversations written at once"),
        ("--max-prompt-tokens", int, "longer prompts are left out"),
        ("--max-new-tokens", int, "limit of an answer"),
        ("--temperature", float, "of the model's own prompts; answers are greedy"),
        ("--top-p", float, "of the model's own prompts"),
        ("--seed", int, "of the model's own prompts"),
    )
    add("--dtype", default="auto", choices=("auto", *DTYPES), help="of the weights")


def _add_adapter(stages: Any) -> None:
    stage = stages.add_parser("adapter", help="train a MARS adapter on a base model", formatter_class=_Help)
    add = stage.add_argument
    add("--base", required=True, help=f"{SOURCES}: the model, which stays as it is")
    add("--data", required=True, nargs="+", metavar="FILE", help="JSONL files written by distill")
    add("--output", required=True, help="folder of the adapter; steps to resume from go to OUTPUT/work")
    add("--mode", choices=("gated", "merged"), default="gated", help="masks only, or one model for everything")
    # torchrun takes --start for one of its own options.
    add(
        *("--start", "--start-from"),
        metavar="DIR",
        help="a saved step (OUTPUT/work/checkpoint-N) to go on from with a new schedule",
    )
    add("--no-head", dest="head", action="store_false", help="without the conditional head")
    _add(
        stage,
        AdapterSettings(base="", data=(), output=""),
        ("--masks", int, "masks of a group; 0 in mode merged is plain SFT of a LoRA, to compare with"),
        ("--block-size", int, "what decoders take unless told otherwise; one more than the masks if not given"),
        ("--rank", int, "rank of the LoRA on all seven linears"),
        (
            "--hard-share",
            float,
            "weight of the token that was written in a mask's target; the rest is the base's distribution",
        ),
        ("--sft-weight", float, "mode merged: weight of what keeps the text without masks; 0 trains masks alone"),
        ("--anchors", int, "groups of masks in a sequence and step"),
        ("--keep", float, "probability that a group goes on after each of its masks"),
        ("--batch-size", int, "sequences per process and forward pass"),
        ("--gradient-accumulation", int, "forward passes per optimizer step"),
        ("--learning-rate", float, "peak; cosine to 0"),
        ("--warmup-share", float, "share of the steps in which the rate rises"),
        ("--epochs", float, "passes over the conversations; anchors are drawn anew in each"),
        ("--minutes", float, "train so long instead, over all calls with --resume; the rate falls with the time"),
        ("--pause-after", float, "minutes after which this call saves and ends, where --minutes are more"),
        ("--max-length", int, "tokens of a conversation that are read; the rest is left out"),
        ("--seed", int, "of the weights, the order of the data and the anchors"),
        ("--save-steps", int, "optimizer steps between saves to resume from"),
    )
    add("--resume", action="store_true", help="go on from the last save in OUTPUT/work")


def _add_pair(stages: Any) -> None:
    stage = stages.add_parser("pair", help="an SFT adapter and a MARS adapter from it", formatter_class=_Help)
    about = "folder of data and adapters; the same command goes on after an interruption"
    stage.add_argument("--output", required=True, help=about)
    stage.add_argument("--data", nargs="*", default=(), metavar="FILE", help="JSONL of more conversations for SFT")
    stage.add_argument("--prompts", nargs="*", default=(), metavar="FILE", help="more prompts for MARS, as of distill")
    _add(
        stage,
        PairSettings(output=""),
        ("--base", str, f"{SOURCES} to start from"),
        ("--problems", int, "synthetic problems for each stage"),
        ("--self-prompts", int, "prompts that the model writes itself, for each stage"),
        ("--sft-minutes", float, "training of stage 1"),
        ("--mars-minutes", float, "training of stage 2"),
        ("--sft-weight", float, "stage 2: weight of what keeps the text without masks"),
        ("--sft-rank", int, "rank of stage 1's LoRA"),
        ("--rank", int, "rank of stage 2's"),
        ("--masks", int, "masks of a group"),
        ("--anchors", int, "groups of masks in a sequence and step"),
        ("--batch-size", int, "sequences per process and forward pass"),
        ("--places", int, "conversations written at once"),
        ("--max-length", int, "tokens of a conversation that are read; the rest is left out"),
        ("--seed", int, "of data, weights and order"),
    )


def _add_phrases(stages: Any) -> None:
    stage = stages.add_parser("phrases", help="count what a base often writes, for its adapter", formatter_class=_Help)
    add = stage.add_argument
    add("--base", required=True, help=f"{SOURCES}: the model that wrote the answers")
    add("--data", required=True, nargs="+", metavar="FILE", help="JSONL files written by distill")
    add("--output", required=True, help="folder of the adapter")
    settings = AdapterSettings(base="", data=(), output="")
    _add(stage, settings, ("--max-length", int, "tokens of a conversation that are read; the rest is left out"))


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Help that shows the defaults that are numbers or words, and keeps the line breaks of the examples."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        no_default = action.default is None or action.default == () or isinstance(action.default, bool)
        return action.help if no_default else super()._get_help_string(action)


def _add_common(stage: argparse.ArgumentParser) -> None:
    add = stage.add_argument
    add("--output", required=True, help="folder of the checkpoint; steps to resume from go to OUTPUT/work")
    add("--data", help="chat JSONL, each line ending with an assistant turn; without it, synthetic problems")
    _add(
        stage,
        TrainingSettings(stage="sft", output=""),
        ("--examples", int, "synthetic problems to generate"),
        ("--data-seed", int, "which synthetic problems"),
        ("--drill-share", float, "share of the synthetic data that drills recall from the prompt"),
        ("--epochs", float, "passes over the data (5 a stage in the paper)"),
        ("--batch-size", int, "sequences per device and forward pass"),
        ("--gradient-accumulation", int, "forward passes per optimizer step"),
        ("--optimizer", ("adamw", "muon"), "muon: fewer steps from scratch"),
        ("--learning-rate", float, "peak; cosine to 0 (paper: 5e-6; from scratch: 2e-3)"),
        ("--warmup-share", float, "share of the steps in which the rate rises"),
        ("--weight-decay", float, "decoupled weight decay"),
        ("--max-length", int, "limit of a sequence in tokens; a longer one is an error"),
        ("--precision", ("bf16", "fp32"), "bf16 autocast over float32 weights, or float32"),
        ("--seed", int, "of the weights and the order of the data"),
        ("--save-steps", int, "optimizer steps between saves to resume from"),
    )
    add("--resume", action="store_true", help="go on from the last save in OUTPUT/work")


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
    return 0


def _run(options: argparse.Namespace, command: str) -> None:
    """Run the stage that was asked for; torch is imported only now, after the options are known to be right."""
    values = vars(options)
    stage = values.pop("stage")
    if stage == "distill":
        checkpoint, dtype = values.pop("checkpoint"), values.pop("dtype")
        wanted = DistillSettings(**{**values, "prompts": tuple(values["prompts"])})
        from mars.checkpoint import load_checkpoint
        from mars.training.distill import distill

        distill(load_checkpoint(checkpoint, dtype=dtype), wanted)
    elif stage == "pair":
        pair = PairSettings(**{**values, **{name: tuple(values[name]) for name in ("data", "prompts")}})
        from mars.training.pair import train_pair

        train_pair(pair, command)
    elif stage in ("adapter", "phrases"):
        settings = AdapterSettings(**{**values, "data": tuple(values["data"])})
        from mars.training.adapter_run import count, train_adapter

        if stage == "phrases":
            sys.stdout.write(f"{count(settings)} phrases\n")
        else:
            train_adapter(settings, command)
    else:
        plain = TrainingSettings(**values, stage=stage.replace("-", "_"))
        from mars.training.run import train

        train(plain, command)


if __name__ == "__main__":
    sys.exit(main())
