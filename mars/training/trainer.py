"""Our additions to the Hugging Face Trainer: the order of examples, optimizers, training by the clock, arguments."""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from pickle import UnpicklingError
from random import Random
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn
from torch.optim import AdamW, Muon, Optimizer
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import Dataset, Sampler
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from mars.checkpoint.converted import known_fingerprint
from mars.checkpoint.errors import failing
from mars.checkpoint.sources import locate
from mars.training.data import Conversation, Numbered
from mars.training.settings import AdapterSettings, TrainingSettings, keep_settings

BATCHES_PER_BUCKET = 80
BETAS = (0.9, 0.98)
PACE_FILE = "pace.json"
"""In the folder of a saved step: the seconds trained until then."""
SETTINGS_FILE = "settings.json"
"""Beside the saved steps: the settings of their run."""
OWN_OF_A_CALL = ("output", "resume", "save_steps", "minutes", "pause_after", "base", "checkpoint", "tokenizer", "data")
"""Settings that may be others when a run is resumed; files may have moved, but must say the same."""
ENDLESS_EPOCHS = 100_000.0
"""The number of epochs for the Trainer when the clock decides."""
_LEAST = 1e-3


class MixedLengthBatches(Sampler[int]):
    """Indices in shuffled batches; the `batch_size` examples of a batch have similar lengths, to save padding.

    Sorting by length sorts by family, and steps whose examples are all of one family learn slower (docs/log.md). So
    this does not use the Trainer's own grouping, in which neighbouring batches are alike. The order depends on the seed
    and the epoch alone. Indices go on over the epochs: example i of n is i + n in the second one.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self._lengths = lengths
        self._batch_size = batch_size
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of this epoch."""
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[int]:
        rng = Random(f"{self._seed}/{self._epoch}")
        order = list(range(len(self._lengths)))
        rng.shuffle(order)
        size = self._batch_size * BATCHES_PER_BUCKET
        for first in range(0, len(order), size):
            bucket = sorted(order[first : first + size], key=lambda index: self._lengths[index])
            batches = [bucket[start : start + self._batch_size] for start in range(0, len(bucket), self._batch_size)]
            last = batches.pop() if len(batches[-1]) < self._batch_size else []
            rng.shuffle(batches)
            yield from (self._epoch * len(order) + index for batch in [*batches, last] for index in batch)


class NumberedConversations(Dataset[Numbered]):
    """Conversations, each with a number that it has in no other epoch."""

    def __init__(self, conversations: Sequence[Conversation]) -> None:
        self.conversations = conversations

    def __len__(self) -> int:
        return len(self.conversations)

    def __getitem__(self, number: int) -> Numbered:
        return number, self.conversations[number % len(self.conversations)]


class MixedLengthTrainer(Trainer):
    """A Trainer that reads conversations in batches of similar lengths, and may be driven by the clock (`Pace`)."""

    def __init__(self, conversations: Sequence[Conversation], pace: Pace | None = None, **arguments: Any) -> None:
        self._pace, self._conversations = pace or Pace(), conversations
        super().__init__(train_dataset=NumberedConversations(conversations), callbacks=[self._pace], **arguments)

    def run(self, settings: TrainingSettings | AdapterSettings) -> dict[str, Any]:
        """Train, from the last saved step if that is asked for; returns what the record says of it.

        Ctrl-C saves the step that is under way and raises KeyboardInterrupt; a second one raises it at once.
        """
        if self.args.n_gpu > 1:
            raise ValueError("several GPUs in one process are not supported: use `accelerate launch -m mars.training`")
        data = hashlib.sha256()
        for each in self._conversations:
            data.update(repr(each).encode())
        source = settings.base if isinstance(settings, AdapterSettings) else settings.checkpoint
        if source and Path(source).resolve() == Path(settings.output).resolve():
            raise ValueError(f"output must be another folder than {source}, which the run starts from")
        base = known_fingerprint(locate(source)[0])[:16] if source else None  # of the weights; of an adapter, its own
        same = {"processes": self.args.world_size, "base": base, "data": data.hexdigest()[:16]}
        last = first_step(Path(str(self.args.output_dir)), settings, **same)
        heard = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, self._pace.stop) if heard else None
        try:
            steps = self.train(resume_from_checkpoint=last).global_step
        finally:
            if heard:
                signal.signal(signal.SIGINT, before)
        if self._pace.stopped:
            raise KeyboardInterrupt
        seconds, state = self._pace.seconds, self.state
        paused = state.global_step < state.max_steps if self._pace.endless else seconds < self._pace.total
        return {"steps": steps, "seconds": round(seconds, 1), "resumed": settings.resume, "paused": paused}

    @property
    def done(self) -> float:
        """The share of the training that is done: of its time, or of its steps."""
        pace, state = self._pace, self.state
        return state.global_step / max(1, state.max_steps) if pace.endless else pace.seconds / pace.total

    def log(self, logs: dict[str, Any], *arguments: Any, **options: Any) -> None:
        """Log None for what is not finite; ValueError where that is the loss or its gradient: the weights are not."""
        wrong = [name for name, value in logs.items() if isinstance(value, float) and not math.isfinite(value)]
        if {"loss", "grad_norm"} & {*wrong}:
            raise ValueError(
                f"at step {self.state.global_step} the {wrong[0]} is {logs[wrong[0]]}, so training ends and what is in "
                "the folder stays: start anew in another one, with a lower --learning-rate"
            )
        super().log(logs | dict.fromkeys(wrong), *arguments, **options)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """The Trainer's own schedule, or that of the clock."""
        if self._pace.endless:
            return super().create_scheduler(num_training_steps, optimizer)
        self.lr_scheduler = LambdaLR(optimizer or self.optimizer, lambda _: self._pace.factor)
        return self.lr_scheduler

    def _get_train_sampler(self, train_dataset: Any = None) -> MixedLengthBatches:
        lengths = [len(example.ids) for example in self._conversations]
        return MixedLengthBatches(lengths, self.args.per_device_train_batch_size, self.args.seed)

    def _save_checkpoint(self, *arguments: Any, **options: Any) -> None:
        fix = "make room, then go on from the step before it with --resume"
        with failing(f"no step can be saved in {self.args.output_dir}", fix, OSError, RuntimeError, SafetensorError):
            super()._save_checkpoint(*arguments, **options)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        with resuming(resume_from_checkpoint):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        with resuming(checkpoint):
            for name in ("optimizer.pt", "scheduler.pt", "rng_state*.pth") if checkpoint else ():
                if not any(Path(str(checkpoint)).glob(name)):
                    raise ValueError(f"without {name}")  # the Trainer would begin anew
            super()._load_optimizer_and_scheduler(checkpoint)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        with resuming(checkpoint):
            super()._load_rng_state(checkpoint)


def training_arguments(settings: TrainingSettings | AdapterSettings, **others: Any) -> TrainingArguments:
    """The arguments of all runs, and `others`: after a warm-up the learning rate falls to 0 as a cosine."""
    cpu = not torch.cuda.is_available()
    return TrainingArguments(
        output_dir=str(Path(settings.output) / "work"),
        per_device_train_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.gradient_accumulation,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=settings.warmup_share,
        use_cpu=cpu,
        ddp_backend="gloo" if cpu and int(os.environ.get("WORLD_SIZE", "1")) > 1 else None,
        seed=settings.seed,
        save_steps=settings.save_steps,
        save_total_limit=2,
        report_to="none",
        logging_nan_inf_filter=False,
        remove_unused_columns=False,
        dataloader_pin_memory=not cpu,
        **others,
    )


def first_step(work: Path, settings: TrainingSettings | AdapterSettings, **same: Any) -> str | None:
    """The saved step to go on from; None for a new run, whose settings are written into `work`.

    ValueError where a new run finds steps, and a resumed one none, other settings, or something that is not the `same`.
    """
    file = work / SETTINGS_FILE
    last = last_saved_step(work) if settings.resume else None
    if last is None:
        if any(work.glob("checkpoint-*/trainer_state.json")):
            raise ValueError(f"{work} holds saved steps: --resume goes on from them; to start anew, delete {work}")
        file.unlink(missing_ok=True)
    keep_settings(file, {name: value for name, value in asdict(settings).items() if name not in OWN_OF_A_CALL} | same)
    return last


def last_saved_step(work: Path) -> str:
    """The newest folder that the Trainer finished writing (its state file comes last), or ValueError."""
    saved = {int(state.parent.name.rpartition("-")[2]): state for state in work.glob("checkpoint-*/trainer_state.json")}
    for step in sorted(saved, reverse=True):
        try:
            TrainerState.load_from_json(str(saved[step]))
        except (ValueError, TypeError):
            continue
        return str(saved[step].parent)
    raise ValueError(f"nothing to resume: {work} holds no saved step; run without --resume")


def resuming(folder: str | None) -> AbstractContextManager[None]:
    """A context in which a saved step is read, and one that cannot be is named."""
    fix = "delete this folder to go on from the step before it, or start anew"
    kinds = (OSError, EOFError, ValueError, LookupError, TypeError, RuntimeError, UnpicklingError, SafetensorError)
    return failing(f"the saved step {folder} is broken, or of other settings", fix, *kinds)


class MuonAdamW(Optimizer):
    """Two optimizers that step as one and share their parameter groups with the learning-rate schedule."""

    def __init__(self, muon: Muon, adamw: AdamW) -> None:
        self._parts: tuple[Optimizer, Optimizer] = (muon, adamw)
        super().__init__([*muon.param_groups, *adamw.param_groups], {})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step of both; a closure is evaluated once, before."""
        loss = closure() if closure is not None else None
        for part in self._parts:
            part.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """The states of both, in order."""
        return {"parts": [part.state_dict() for part in self._parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore both; the groups are shared again afterwards."""
        for part, state in zip(self._parts, state_dict["parts"], strict=True):
            part.load_state_dict(state)
        self.param_groups = [group for part in self._parts for group in part.param_groups]


def make_optimizer(name: str, model: nn.Module, learning_rate: float, weight_decay: float) -> Optimizer:
    """AdamW, or Muon for the matrices inside the layers and AdamW for the rest (docs/log.md compares them).

    Muon's updates are scaled to AdamW's size, so that one rate serves both.
    """
    if name == "adamw":
        return AdamW(model.parameters(), lr=learning_rate, betas=BETAS, weight_decay=weight_decay)
    inner = {id(p) for layer in model.modules() if isinstance(layer, nn.ModuleList) for p in layer.parameters()}
    matrices = [p for p in model.parameters() if p.ndim == 2 and id(p) in inner]
    rest = [p for p in model.parameters() if p.ndim != 2 or id(p) not in inner]
    return MuonAdamW(
        Muon(matrices, lr=learning_rate, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw"),
        AdamW(rest, lr=learning_rate, betas=BETAS, weight_decay=weight_decay),
    )


class Pace(TrainerCallback):
    """Training by the clock, for a machine that is available for minutes at a time: the number of steps is unknown.

    It ends training after `minutes` in all calls together, if that is given; it saves and ends a single call after
    `pause_after` minutes, and where it was `stopped`.
    `factor` is the current factor of the peak learning rate: it rises over `warmup_share` of the time, then falls to 0
    as a cosine. Both follow the clock of the first process, read after each step: all take the same steps.
    """

    def __init__(
        self,
        minutes: float | None = None,
        warmup_share: float = 0.0,
        pause_after: float | None = None,
        now: Callable[[], float] = time.monotonic,
    ):
        self.stopped = False
        self.endless = minutes is None
        self.total = 60 * (minutes or math.inf)
        self._warmup_share = warmup_share
        self._own = math.inf if pause_after is None else 60 * pause_after
        self._now = now
        self._before = self._here = 0.0
        self._start = now()

    @property
    def seconds(self) -> float:
        """Seconds trained until the last step, those of earlier calls included."""
        return self._before + self._here

    def stop(self, *_: Any) -> None:
        """End after the step that is under way; at once if it is said twice."""
        if self.stopped:
            raise KeyboardInterrupt
        self.stopped = True
        sys.stderr.write("\nEnding after this step, which is saved. Ctrl-C again ends at once.\n")

    def read_clock(self) -> None:
        """Take the time that the first process reads, and whether that was stopped."""
        told: list[Any] = [self._now() - self._start, self.stopped]
        if torch.distributed.is_initialized():
            torch.distributed.broadcast_object_list(told)
        self._here, self.stopped = told

    @property
    def factor(self) -> float:
        """The current factor of the peak learning rate."""
        share = min(1.0, self.seconds / self.total)
        if share < self._warmup_share:
            return max(_LEAST, share / self._warmup_share)
        return 0.5 * (1 + math.cos(math.pi * (share - self._warmup_share) / (1 - self._warmup_share)))

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Take over the seconds of the step that training goes on from."""
        file = _folder(args, state) / PACE_FILE
        with resuming(str(file.parent)):
            self._before = float(json.loads(file.read_text(encoding="utf-8"))["seconds"]) if file.is_file() else 0.0
        self._start, self._here = self._now(), 0.0

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> Any:
        """Save and stop when the time is up."""
        self.read_clock()
        if self.stopped or self.seconds >= self.total or self._here >= self._own:
            control.should_save = control.should_training_stop = True
        control.should_log |= control.should_save  # no step is saved whose loss is no number
        return control

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Note the seconds beside the step."""
        if state.is_world_process_zero:
            text = json.dumps({"seconds": round(self.seconds, 3)}) + "\n"
            (_folder(args, state) / PACE_FILE).write_text(text, encoding="utf-8")


def _folder(args: TrainingArguments, state: TrainerState) -> Path:
    return Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
