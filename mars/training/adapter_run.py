"""One run that trains a MARS adapter on the Hugging Face Trainer: sharding, resuming and logging come from there."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig
from safetensors.torch import load_file, save_file
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedModel, PreTrainedTokenizerBase, set_seed

from mars.chat import end_of_turn
from mars.checkpoint.adapter import (
    MASKS_FILE,
    WEIGHTS_FILE,
    Adapter,
    find_base,
    is_adapter,
    load_adapter,
    merge,
)
from mars.checkpoint.converted import known_fingerprint
from mars.checkpoint.sources import RECORD_FILE, adapter_base, locate
from mars.checkpoint.weights import load_model, load_tokenizer, read_config
from mars.engine.linear import LINEARS
from mars.provenance import provenance
from mars.training.adapter import SCALE, AdapterModel, AnchorCollator
from mars.training.data import Conversation, encode_conversation, read_chats
from mars.training.settings import AdapterSettings
from mars.training.trainer import (
    BETAS,
    ENDLESS_EPOCHS,
    MixedLengthTrainer,
    NumberedConversations,
    Pace,
    last_saved_step,
    resuming,
    training_arguments,
)

LEAST_ANSWER = 4


class AdapterTrainer(MixedLengthTrainer):
    """Trainer that saves only the trained weights and logs how often each mask of a group is right."""

    def __init__(self, pace: Pace | None = None, **arguments: Any) -> None:
        super().__init__(**arguments, callbacks=[] if pace is None else [pace])
        self._pace = pace

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """The Trainer's own schedule, or that of the clock."""
        pace = self._pace
        if pace is None:
            return super().create_scheduler(num_training_steps, optimizer)
        self.lr_scheduler = LambdaLR(optimizer or self.optimizer, lambda _: pace.factor)
        return self.lr_scheduler

    def _get_num_items_in_batch(self, batch_samples: list[dict[str, torch.Tensor]], device: torch.device) -> Any:
        """Masks and tokens of the answers in a whole optimizer step [2], over all its forward passes and processes."""
        totals = torch.zeros(2, device=device)
        for batch in batch_samples:
            totals += torch.stack((batch["counts"].sum(), (batch["before"] >= 0).sum())).to(device)
        totals.clamp_(min=1)  # plain SFT has no masks
        processes = self.accelerator.num_processes
        return self.accelerator.gather(totals[None]).sum(0) / processes if processes > 1 else totals

    def compute_loss(
        self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None, **_: Any
    ) -> Any:
        """The mean over the masks of the step, and over its tokens of answers: accumulation does not change it."""
        losses = model(**inputs)
        masks, tokens = (
            self._get_num_items_in_batch([inputs], self.args.device)
            if num_items_in_batch is None
            else num_items_in_batch
        )
        return losses.get("mask_loss", 0.0) / masks + losses.get("clean_loss", 0.0) / tokens

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: torch.nn.Module | None = None) -> None:
        with resuming(resume_from_checkpoint):
            saved = load_file(Path(resume_from_checkpoint) / "model.safetensors")
            (model or self.accelerator.unwrap_model(self.model)).load_state_dict(saved, strict=False)

    def log(self, logs: dict[str, float], *arguments: Any, **options: Any) -> None:
        """Add the share of masks whose most probable token was right, by their number, of this process."""
        model: Any = self.accelerator.unwrap_model(self.model)
        if "loss" in logs:
            for k in range(model.masks):
                if model.seen[k] > 0:
                    logs[f"alone_{k + 1}"] = round(float(model.hits[k] / model.seen[k]), 4)
            model.hits.zero_()
            model.seen.zero_()
        super().log(logs, *arguments, **options)


def train_adapter(settings: AdapterSettings, command: str) -> Path:
    """Train, and save the adapter in PEFT's format with mask and record; returns its folder.

    Raises:
        ValueError: bad settings, data or base, in one sentence.
    """
    set_seed(settings.seed)
    base, tokenizer, origin, before = load_base(settings.base)
    conversations, lost = read_data(settings, tokenizer, int(base.config.max_position_embeddings))
    shape = {name: getattr(settings, name) for name in ("masks", "rank", "sft_weight", "hard_share")}
    model = AdapterModel(base, **shape)
    if settings.start is not None:
        load_trained(model, Path(settings.start))
    work = Path(settings.output) / "work"
    last = last_saved_step(work, settings) if settings.resume else None
    pace = Pace(settings.minutes, settings.warmup_share, settings.pause_after) if settings.minutes else None
    trainer = AdapterTrainer(
        pace,
        model=model,
        args=training_arguments(
            settings,
            work,
            num_train_epochs=ENDLESS_EPOCHS if pace else settings.epochs,
            adam_beta2=BETAS[1],
            logging_steps=10,
        ),
        train_dataset=NumberedConversations(conversations),
        data_collator=collator(settings, end_of_turn(tokenizer)[-1]),
    )
    begin = time.perf_counter()
    result = trainer.train(resume_from_checkpoint=last)
    if trainer.is_world_process_zero():
        arguments = trainer.args
        measured = {
            "conversations": len(conversations),
            **lost,
            "examples": examples_seen(
                result.global_step,
                arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps * arguments.world_size,
                len(conversations),
            ),
            "answer_tokens": sum(end - first for c in conversations for first, end in c.answers),
            "steps": result.global_step,
            "processes": arguments.world_size,
            "seconds": round(pace.seconds if pace else time.perf_counter() - begin, 1),
            "resumed": settings.resume,
            "log": trainer.state.log_history,
        }
        save_adapter(model, settings, origin, measured, provenance(command, str(arguments.device)), before)
    return Path(settings.output)


def examples_seen(steps: int, batch: int, conversations: int) -> int:
    """How many examples that many steps read; the last step of an epoch has what is left."""
    epochs, more = divmod(steps, -(-conversations // batch))
    return epochs * conversations + min(more * batch, conversations)


def collator(settings: AdapterSettings, pad_id: int) -> AnchorCollator:
    """That of these settings."""
    return AnchorCollator(
        pad_id=pad_id, masks=settings.masks, anchors=settings.anchors, keep=settings.keep, seed=settings.seed
    )


def load_base(source: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, dict[str, Any], Adapter | None]:
    """The base in bfloat16 with its tokenizer, how the record names it, and the adapter that was merged into it.

    An adapter as source, of plain SFT, gives the model that the two make.

    Raises:
        ValueError: the adapter has masks of its own.
    """
    folder, _ = locate(source)
    before = None
    home = folder
    name = source
    if is_adapter(folder):
        before = load_adapter(folder)
        if before.mask_1E is not None:
            raise ValueError(f"{source} is an adapter with masks: give a model, or an adapter of plain SFT")
        home, name = find_base(folder), str(adapter_base(folder))
    model_type, config = read_config(home)
    model, tokenizer = (
        load_model(home, model_type, config, torch.float32 if before else torch.bfloat16),
        load_tokenizer(home, config.vocab_size),
    )
    if before is not None:
        merge(model, tokenizer, before)
        model = model.bfloat16()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return model.to(device), tokenizer, {"name": name, "fingerprint": known_fingerprint(home)}, before


def stack(pair: dict[str, tuple[torch.Tensor, torch.Tensor]], old: Any) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """One low-rank pair that changes what two do, for each linear layer."""
    return {
        name: (
            torch.cat((a, old[name].a_SI.to(a))) if name in old else a,
            torch.cat((b, old[name].b_OS.to(b) * (old[name].scale / SCALE)), 1) if name in old else b,
        )
        for name, (a, b) in pair.items()
    }


def read_data(
    settings: AdapterSettings, tokenizer: PreTrainedTokenizerBase, context: int
) -> tuple[list[Conversation], dict[str, int]]:
    """Tokenize the files; what is past `max_length`, or the base's context, is cut off.

    Answers of fewer than four tokens teach nothing and are left out.

    Returns the conversations, and how many answers were cut (`answers_cut`), left out for lying behind the limit
    (`answers_left_out`) or for being short (`answers_short`), and conversations left without any (`left_out`).

    Raises:
        ValueError: names the file, line and field at fault, or says that nothing is left.
    """
    kept: list[Conversation] = []
    lost = dict.fromkeys(("answers_cut", "answers_left_out", "answers_short", "left_out"), 0)
    limit = min(settings.max_length, context)
    for source in settings.data:
        for chat in read_chats(source):
            whole = encode_conversation(tokenizer, chat.messages, ended=chat.ended)
            within = [(first, min(end, limit)) for first, end in whole.answers if first < limit]
            answers = tuple(span for span in within if span[1] - span[0] >= LEAST_ANSWER)
            lost["answers_left_out"] += len(whole.answers) - len(within)
            lost["answers_short"] += len(within) - len(answers)
            lost["answers_cut"] += sum(end > limit for first, end in whole.answers if (first, limit) in answers)
            lost["left_out"] += not answers
            if answers:
                kept.append(Conversation(whole.ids[:limit], answers))
    if not kept:
        raise ValueError("the data files hold no answer of at least four tokens: nothing can be learnt from them")
    if any(lost.values()):
        sys.stderr.write(
            f"of the answers, {lost['answers_cut']} end at the limit of {limit} tokens, {lost['answers_left_out']} lie "
            f"behind it and {lost['answers_short']} have fewer than {LEAST_ANSWER} tokens; {lost['left_out']} "
            f"conversations are left out, {len(kept)} are kept\n"
        )
    return kept, lost


def load_trained(model: AdapterModel, folder: Path) -> None:
    """Take over the adapter of a folder: one that `save_adapter` wrote, or a step that the Trainer saved.

    Raises:
        ValueError: it holds none that fits.
    """
    step = folder / "model.safetensors"
    if not step.is_file():
        raise ValueError(f"{folder} holds no model.safetensors: give a step such as OUTPUT/work/checkpoint-500")
    saved, wanted = load_file(step), model.state_dict()
    misfits = [name for name, value in wanted.items() if name not in saved or saved[name].shape != value.shape]
    if misfits:
        raise ValueError(f"{step} does not fit in {misfits[0]}: it was trained with another rank, or without masks")
    model.load_state_dict(saved, strict=False)


def save_adapter(
    model: AdapterModel,
    settings: AdapterSettings,
    origin: dict[str, Any],
    measured: dict[str, Any],
    source: dict[str, Any],
    before: Adapter | None = None,
) -> None:
    """Write the adapter in PEFT's format and bfloat16, the mask beside it, and the training record.

    `before` is the adapter that the base had already: the two become one on the base's own base.
    Without masks its stage is `sft`, and it has neither mask nor block size.
    """
    output = Path(settings.output)
    output.mkdir(parents=True, exist_ok=True)
    pairs = [{name: (pair.a, pair.b) for name, pair in layer.items()} for layer in model.pairs]
    if before is not None:
        pairs = [stack(pair, old) for pair, old in zip(pairs, before.layers, strict=True)]
    rank = pairs[0]["q_proj"][0].shape[0]
    LoraConfig(
        base_model_name_or_path=origin["name"],
        r=rank,
        lora_alpha=int(SCALE * rank),
        target_modules=list(LINEARS),
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
        inference_mode=True,
    ).save_pretrained(str(output))
    weights = {
        f"base_model.model.model.layers.{number}.{LINEARS[name]}.{name}.lora_{letter}.weight": half.detach()
        .bfloat16()
        .contiguous()
        for number, layer in enumerate(pairs)
        for name, pair in layer.items()
        for letter, half in zip("AB", pair, strict=True)
    }
    save_file(weights, output / WEIGHTS_FILE, {"format": "pt"})
    if model.masks:
        halves = {"mask_embeddings": model.mask_embeddings.detach().bfloat16().contiguous()}
        save_file(halves, output / MASKS_FILE, {"format": "pt"})
    record = {
        "stage": "adapter" if model.masks else "sft",
        "mode": "merged",
        "block_size": settings.block_size or settings.masks + 1 if model.masks else None,
        "sft_loss": settings.sft_weight > 0 if model.masks else None,
        "masks": settings.masks,
        "base": origin,
        "settings": {name: value for name, value in asdict(settings).items() if name != "output"},
        "measured": measured,
        "provenance": source,
    }
    (output / RECORD_FILE).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
