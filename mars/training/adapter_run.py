"""One run that trains a MARS adapter on the Hugging Face Trainer: sharding, resuming and logging come from there."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedModel, PreTrainedTokenizerBase, set_seed

from mars.checkpoint.adapter import MASKS_FILE, PHRASES_FILE, WEIGHTS_FILE, is_adapter, write_phrases
from mars.checkpoint.converted import known_fingerprint
from mars.checkpoint.sources import RECORD_FILE, locate
from mars.checkpoint.weights import load_model, load_tokenizer, read_config
from mars.phrases import count_phrases
from mars.provenance import provenance
from mars.training.adapter import AdapterModel, AnchorCollator, AnswerCollator, Conversation, encode_conversation
from mars.training.settings import AdapterSettings
from mars.training.trainer import BETAS, ENDLESS_EPOCHS, MixedLengthTrainer, Pace, last_saved_step, training_arguments

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

    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any], **_: Any) -> Any:
        """The mean over the masks of this process's batch."""
        return model(**inputs)["loss"] / self.args.gradient_accumulation_steps

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: torch.nn.Module | None = None) -> None:
        saved = load_file(Path(resume_from_checkpoint) / "model.safetensors")
        (model or self.accelerator.unwrap_model(self.model)).load_state_dict(saved, strict=False)

    def log(self, logs: dict[str, float], *arguments: Any, **options: Any) -> None:
        """Add the share of masks whose most probable token was right, by their number, of this process."""
        model: Any = self.accelerator.unwrap_model(self.model)
        if "loss" in logs:
            for name, hits, seen in zip(("alone", "given"), model.hits, model.seen, strict=True):
                for k in range(model.masks):
                    if seen[k] > 0:
                        logs[f"{name}_{k + 1}"] = round(float(hits[k] / seen[k]), 4)
            model.hits.zero_()
            model.seen.zero_()
        super().log(logs, *arguments, **options)


def train_adapter(settings: AdapterSettings, command: str) -> Path:
    """Train, and save the adapter in PEFT's format with masks, head and record; returns its folder.

    Raises:
        ValueError: bad settings, data or base, in one sentence.
    """
    set_seed(settings.seed)
    base, tokenizer, origin = load_base(settings.base)
    conversations = read_data(settings, tokenizer)
    shape = {name: getattr(settings, name) for name in ("masks", "rank", "head", "mode", "sft_loss")}
    model = AdapterModel(base, **shape)
    if settings.start is not None:
        load_trained(model, Path(settings.start))
    work = Path(settings.output) / "work"
    last = last_saved_step(work) if settings.resume else None
    pace = Pace(settings.minutes, settings.warmup_share, settings.pause_after) if settings.minutes else None
    trainer = AdapterTrainer(
        pace,
        model=model,
        args=training_arguments(
            settings,
            work,
            num_train_epochs=ENDLESS_EPOCHS if pace else settings.epochs,
            ignore_data_skip=pace is not None,  # or a call begins with reading what earlier ones have read
            adam_beta2=BETAS[1],
            logging_steps=10,
        ),
        train_dataset=conversations,
        data_collator=collator(settings, int(tokenizer.eos_token_id)),
    )
    begin = time.perf_counter()
    result = trainer.train(resume_from_checkpoint=last)
    if trainer.is_world_process_zero():
        arguments = trainer.args
        measured = {
            "conversations": len(conversations),
            "examples": result.global_step
            * (arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps * arguments.world_size),
            "answer_tokens": sum(end - first for c in conversations for first, end in c.answers),
            "steps": result.global_step,
            "processes": arguments.world_size,
            "seconds": round(pace.seconds if pace else time.perf_counter() - begin, 1),
            "resumed": settings.resume,
            "log": trainer.state.log_history,
        }
        save_adapter(model, settings, origin, measured, provenance(command, str(arguments.device)))
    return Path(settings.output)


def count(settings: AdapterSettings) -> int:
    """Count what the base writes in its answers, for the adapter in `output`; returns the number of phrases.

    Raises:
        ValueError: bad data or base, or no adapter there, in one sentence.
    """
    if not is_adapter(Path(settings.output)):
        raise ValueError(f"{settings.output} holds no adapter: give the folder of one")
    folder, _ = locate(settings.base)
    conversations = read_data(settings, load_tokenizer(folder))
    phrases = count_phrases((one.ids, *span) for one in conversations for span in one.answers)
    write_phrases(phrases, Path(settings.output) / PHRASES_FILE)
    return len(phrases.behind)


def collator(settings: AdapterSettings, pad_id: int) -> AnchorCollator | AnswerCollator:
    """That of masks, or without any that of plain SFT."""
    if not settings.masks:
        return AnswerCollator(pad_id=pad_id)
    return AnchorCollator(pad_id=pad_id, masks=settings.masks, anchors=settings.anchors, keep=settings.keep)


def load_base(source: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, dict[str, Any]]:
    """The base in bfloat16 with its tokenizer, and how the record names it."""
    folder, _ = locate(source)
    model_type, config = read_config(folder)
    model = load_model(folder, model_type, config, torch.bfloat16)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return model.to(device), load_tokenizer(folder), {"name": source, "fingerprint": known_fingerprint(folder)}


def read_data(settings: AdapterSettings, tokenizer: PreTrainedTokenizerBase) -> list[Conversation]:
    """Tokenize the files; answers of fewer than four tokens teach nothing and are left out.

    Raises:
        ValueError: names the file and line at fault, or says that nothing is left.
    """
    found = []
    for source in settings.data:
        path = Path(source)
        if not path.is_file():
            raise ValueError(f"data file {path} does not exist")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                data = json.loads(line)
                messages, ended = data["messages"], bool(data.get("ended", True))
                conversation = encode_conversation(tokenizer, messages, settings.max_length, ended=ended)
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path}, line {number}: expected a conversation as `distill` writes it") from error
            answers = tuple(span for span in conversation.answers if span[1] - span[0] >= LEAST_ANSWER)
            if answers:
                found.append(Conversation(conversation.ids, answers))
    if not found:
        raise ValueError("the data files hold no answer of at least four tokens: nothing can be learnt from them")
    return found


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
        raise ValueError(f"{step} does not fit in {misfits[0]}: it was trained with other masks, rank or head")
    model.load_state_dict(saved, strict=False)


def save_adapter(
    model: AdapterModel,
    settings: AdapterSettings,
    origin: dict[str, Any],
    measured: dict[str, Any],
    source: dict[str, Any],
) -> None:
    """Write the adapter in PEFT's format and bfloat16, masks and head beside it, and the training record.

    Without masks its stage is `sft`, and it has neither masks nor a block size.
    """
    output = Path(settings.output)
    model.peft.peft_config["default"].base_model_name_or_path = origin["name"]
    model.peft.save_pretrained(output, save_embedding_layers=False)  # or PEFT asks the Hub
    weights = output / WEIGHTS_FILE
    save_file({name: value.bfloat16() for name, value in load_file(weights).items()}, weights, {"format": "pt"})
    extra: dict[str, torch.Tensor] = {"mask_embeddings": model.mask_embeddings}
    if model.head is not None:
        extra |= {"head.up": model.head.up.weight, "head.down": model.head.down.weight}
    if model.masks:
        halves = {name: weight.detach().bfloat16().contiguous() for name, weight in extra.items()}
        save_file(halves, output / MASKS_FILE, {"format": "pt"})
    record = {
        "stage": "adapter" if model.masks else "sft",
        "mode": settings.mode,
        "block_size": settings.block_size or settings.masks + 1 if model.masks else None,
        "sft_loss": settings.sft_loss if model.masks and settings.mode == "merged" else None,
        "masks": settings.masks,
        "head": settings.head,
        "base": origin,
        "settings": {name: value for name, value in asdict(settings).items() if name != "output"},
        "measured": measured,
        "provenance": source,
    }
    (output / RECORD_FILE).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
