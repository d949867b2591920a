"""One run that trains a MARS adapter on the Hugging Face Trainer: sharding, resuming and logging come from there."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel, PreTrainedTokenizerBase, set_seed

from mars.chat import end_of_turn
from mars.checkpoint.adapter import MASKS_FILE, WEIGHTS_FILE, adapter_below, find_base, is_adapter, load_adapter, merge
from mars.checkpoint.calibration import write_record
from mars.checkpoint.converted import known_fingerprint
from mars.checkpoint.sources import adapter_base, locate, weights_digest
from mars.checkpoint.weights import load_model, load_tokenizer, read_config
from mars.engine.linear import LINEARS
from mars.provenance import provenance
from mars.training.adapter import SCALE, AdapterModel, AnchorCollator
from mars.training.data import read_conversations
from mars.training.settings import AdapterSettings
from mars.training.trainer import BETAS, ENDLESS_EPOCHS, MixedLengthTrainer, Pace, resuming, training_arguments


class AdapterTrainer(MixedLengthTrainer):
    """Trainer that saves only the trained weights and logs how often each mask of a group is right."""

    def _get_num_items_in_batch(self, batch_samples: list[dict[str, torch.Tensor]], device: torch.device) -> Any:
        """Masks and tokens of the answers in a whole optimizer step [2], over all its forward passes and processes."""
        sizes = [[len(batch["masks"]), len(batch["before"])] for batch in batch_samples]
        totals = torch.tensor(sizes, dtype=torch.float32).sum(0).clamp_(min=1).to(device)  # plain SFT has no masks
        processes = self.accelerator.num_processes
        return self.accelerator.gather(totals[None]).sum(0) / processes if processes > 1 else totals

    def compute_loss(
        self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None, **_: Any
    ) -> Any:
        """The mean over the masks of the step, and over its tokens of answers: accumulation does not change it."""
        self.accelerator.unwrap_model(model).done = self.done
        losses = model(**inputs)
        if num_items_in_batch is None:
            num_items_in_batch = self._get_num_items_in_batch([inputs], self.args.device)
        masks, tokens = num_items_in_batch
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


def train_adapter(settings: AdapterSettings, command: str) -> None:
    """Train, and save the adapter in PEFT's format with mask and record."""
    set_seed(settings.seed)
    base, tokenizer, origin = load_base(settings.base, Path(settings.output))
    limit = min(settings.max_length, int(base.config.max_position_embeddings))
    conversations, lost = read_conversations(tokenizer, settings.data, limit)
    of_model, of_data = (
        dict[str, Any]((name, getattr(settings, name)) for name in names)
        for names in (("masks", "rank", "sft_weight", "own_block"), ("masks", "anchors", "keep", "seed"))
    )
    model = AdapterModel(base, **of_model)
    pace = Pace(settings.minutes, settings.warmup_share, settings.pause_after)
    epochs = settings.epochs if pace.endless else ENDLESS_EPOCHS
    trainer = AdapterTrainer(
        conversations,
        pace,
        model=model,
        args=training_arguments(settings, num_train_epochs=epochs, adam_beta2=BETAS[1], logging_steps=10),
        data_collator=AnchorCollator(pad_id=end_of_turn(tokenizer)[-1], **of_data),
    )
    done = trainer.run(settings)
    if not trainer.is_world_process_zero():
        return
    arguments = trainer.args
    batch = arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps * arguments.world_size
    measured = {
        "conversations": len(conversations),
        **lost,
        "examples": examples_seen(done["steps"], batch, len(conversations)),
        "processes": arguments.world_size,
        **done,
        "log": trainer.state.log_history,
    }
    save_weights(model, Path(settings.output), origin["base"]["name"])
    record = {
        "stage": "adapter" if model.masks else "sft",
        "mode": "merged",
        "block_size": settings.block_size or settings.masks + 1 if model.masks else None,
        "sft_loss": settings.sft_weight > 0 if model.masks else None,
        "masks": settings.masks,
        **origin,
        "settings": {name: value for name, value in asdict(settings).items() if name != "output"},
        "measured": measured,
        "provenance": provenance(command, str(arguments.device)),
    }
    write_record(Path(settings.output), record)


def examples_seen(steps: int, batch: int, conversations: int) -> int:
    """How many examples that many steps read; the last step of an epoch has what is left."""
    epochs, more = divmod(steps, -(-conversations // batch))
    return epochs * conversations + min(more * batch, conversations)


def load_base(source: str, output: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, dict[str, Any]]:
    """The base in bfloat16 with its tokenizer, and how the record names it: `base`, and `below` if an adapter is there.

    An adapter as source, of plain SFT, gives the model that the two make. ValueError where it has masks, is trained on
    another one, or is not beside `output`, where loading looks for it.
    """
    home, name, below, origin = locate(source)[0], source, None, dict[str, Any]()
    if is_adapter(home):
        below, origin = load_adapter(home), {"below": weights_digest([home / WEIGHTS_FILE])}
        if below.mask_1E is not None or adapter_below(home) is not None:
            raise ValueError(f"{source} has masks, or is on another adapter: give a model, or an adapter of plain SFT")
        if home.resolve().parent != output.resolve().parent:
            raise ValueError(f"output must be beside its base {source}: give {home.parent / output.name}")
        home, name = find_base(home), str(adapter_base(home))
    model_type, config = read_config(home)
    model = load_model(home, model_type, config, torch.float32 if below else torch.bfloat16)
    tokenizer = load_tokenizer(home, config.vocab_size)
    if below is not None:
        merge(model, tokenizer, below)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    named = {"name": name, "fingerprint": known_fingerprint(home)}
    return model.to(device, torch.bfloat16), tokenizer, {"base": named, **origin}


def save_weights(model: AdapterModel, output: Path, base: str) -> None:
    """Write the LoRA in PEFT's format and bfloat16, and the mask's embedding, if any."""
    output.mkdir(parents=True, exist_ok=True)
    weights, rank = {}, 0
    for number, layer in enumerate(model.pairs):
        for name, pair in layer.items():
            rank, place = len(pair.a), f"base_model.model.model.layers.{number}.{LINEARS[name]}.{name}"
            for letter, half in (("A", pair.a), ("B", pair.b)):
                weights[f"{place}.lora_{letter}.weight"] = half.detach().bfloat16().contiguous()
    LoraConfig(
        base_model_name_or_path=base,
        r=rank,
        lora_alpha=int(SCALE * rank),
        target_modules=list(LINEARS),
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
        inference_mode=True,
    ).save_pretrained(str(output))
    save_file(weights, output / WEIGHTS_FILE, {"format": "pt"})
    if model.masks:
        mask = {"mask_embeddings": model.mask_embeddings.detach().bfloat16().contiguous()}
        save_file(mask, output / MASKS_FILE, {"format": "pt"})
