"""One training stage on the Hugging Face Trainer: sharding, resuming, logging and progress bars come from there."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase, set_seed

from mars.chat import end_of_turn
from mars.checkpoint.calibration import write_record
from mars.checkpoint.sources import RECORD_FILE
from mars.provenance import provenance
from mars.training.data import Chat, Collator, Conversation, encode_example, read_chats, synthetic_conversations
from mars.training.objective import mars_losses, sft_losses
from mars.training.settings import TrainingSettings
from mars.training.start import start
from mars.training.trainer import MixedLengthTrainer, make_optimizer, training_arguments


class StageTrainer(MixedLengthTrainer):
    """Trainer with the loss of the stage; for stage mars without the SFT loss this is L_mask alone."""

    def __init__(self, settings: TrainingSettings, mask_token_id: int | None, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._settings = settings
        self._mask_token_id = mask_token_id
        self._parts: dict[str, list[Tensor]] = {"loss_ar": [], "loss_mask": []}

    def compute_loss(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None, **_: Any) -> Any:
        """Sum of the losses over the labels of the whole step, whatever the number of devices."""
        ids, labels = inputs["input_ids"], inputs["labels"]
        if self._mask_token_id is None:
            losses = sft_losses(model, ids, labels)
        else:
            losses = mars_losses(model, ids, labels, self._settings.block_size, self._mask_token_id)
        tokens = losses.tokens if num_items_in_batch is None else num_items_in_batch / self.accelerator.num_processes
        total = torch.zeros((), device=ids.device)
        for name, part in (("loss_ar", losses.autoregressive), ("loss_mask", losses.mask)):
            if part is not None:
                self._parts[name].append(part.detach() / losses.tokens)
                if name == "loss_mask" or losses.mask is None or self._settings.sft_loss:
                    total = total + part
        return total / tokens

    def log(self, logs: dict[str, float], *arguments: Any, **options: Any) -> None:
        """Add the mean of each part of the loss since the last log, in nats per token."""
        for name, values in self._parts.items():
            if values and "loss" in logs:
                logs[name] = round(sum(map(float, values)) / len(values), 4)
                values.clear()
        super().log(logs, *arguments, **options)


def train(settings: TrainingSettings, command: str) -> None:
    """Run one stage and save the checkpoint in bf16, with the training record in `mars.json`."""
    set_seed(settings.seed)
    model, tokenizer = start(settings)
    examples = load_examples(settings, tokenizer, int(model.config.max_position_embeddings))
    trainer = StageTrainer(
        settings,
        tokenizer.mask_token_id if settings.masks else None,
        conversations=examples,
        model=model,
        args=training_arguments(
            settings, num_train_epochs=settings.epochs, bf16=settings.precision == "bf16", logging_steps=50
        ),
        optimizers=(make_optimizer(settings.optimizer, model, settings.learning_rate, settings.weight_decay), None),
        data_collator=Collator(end_of_turn(tokenizer)[-1], settings.block_size if settings.masks else 1),
        processing_class=tokenizer,
    )
    origin = provenance(command, str(trainer.args.device))
    measured = {
        "examples": len(examples),
        "tokens": sum(len(example.ids) for example in examples),
        **trainer.run(settings),
        "final_losses": trainer.state.log_history[-2] if len(trainer.state.log_history) > 1 else {},
    }
    if not trainer.is_world_process_zero():
        return
    previous = Path(settings.checkpoint or "") / RECORD_FILE
    record = {
        "stage": settings.stage,
        "block_size": settings.block_size if settings.masks else None,
        "sft_loss": settings.sft_loss if settings.masks else None,
        "settings": {name: value for name, value in asdict(settings).items() if name != "output"},
        "measured": measured,
        "provenance": origin,
        "started_from": json.loads(previous.read_text()) if settings.checkpoint and previous.is_file() else None,
    }
    model.to(torch.bfloat16).save_pretrained(settings.output)
    tokenizer.save_pretrained(settings.output)
    write_record(Path(settings.output), record)


def load_examples(settings: TrainingSettings, tokenizer: PreTrainedTokenizerBase, context: int) -> list[Conversation]:
    """Tokenize the data of a stage."""
    if settings.max_length > context:
        raise ValueError(f"max_length must be <= the model's context of {context} tokens, got {settings.max_length}")
    if settings.data is None:
        made = synthetic_conversations(settings.examples, settings.data_seed, settings.drill_share)
        chats: Iterable[Chat] = (Chat(messages, True, f"problem {n}") for n, messages in enumerate(made, start=1))
    else:
        chats = read_chats(settings.data)
    examples = [encode_example(tokenizer, chat, settings.max_length) for chat in chats]
    if not examples:
        raise ValueError(f"data file {settings.data} holds no conversation; at least one is needed")
    return examples
