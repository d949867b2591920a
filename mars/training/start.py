"""The model and tokenizer that a stage starts from."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from mars.chat import CHAT_TEMPLATE, MASK_TOKEN, PAD_TOKEN, TURN_END, TURN_START
from mars.checkpoint.sources import locate
from mars.checkpoint.weights import load_model, load_tokenizer, read_config
from mars.training.data import synthetic_conversations
from mars.training.settings import HEAD_SIZE, TrainingSettings

_VOCABULARY = 2048
_CONTEXT = 1024
_LAYERS = 4
_HIDDEN_SIZE = 256
_TOKENIZER_PROBLEMS = 20_000
_QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def start(settings: TrainingSettings) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load `settings.checkpoint`, or build the small model from scratch. Weights are float32."""
    if settings.checkpoint is None:
        return from_scratch(settings)
    folder, _ = locate(settings.checkpoint)
    model_type, config = read_config(folder)
    tokenizer = load_tokenizer(folder, config.vocab_size)
    model = load_model(folder, model_type, config, torch.float32)
    if settings.masks:
        add_mask_token(model, tokenizer)
    return model, tokenizer


def from_scratch(settings: TrainingSettings) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A Qwen2, of 3.5 million parameters unless the settings say otherwise, and its tokenizer."""
    tokenizer: PreTrainedTokenizerBase
    if settings.tokenizer is not None:
        folder, _ = locate(settings.tokenizer)
        vocabulary = int(read_config(folder)[1].vocab_size)
        tokenizer = load_tokenizer(folder, vocabulary)
    else:
        vocabulary, made = _VOCABULARY, synthetic_conversations(_TOKENIZER_PROBLEMS, settings.data_seed)
        texts = ("".join(f"{turn['role']}\n{turn['content']}\n" for turn in conversation) for conversation in made)
        tokenizer = train_tokenizer(texts, vocabulary, _CONTEXT)
    hidden_size = settings.hidden_size or _HIDDEN_SIZE
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=hidden_size,
        num_hidden_layers=settings.layers or _LAYERS,
        num_attention_heads=hidden_size // HEAD_SIZE,
        num_key_value_heads=hidden_size // HEAD_SIZE,
        intermediate_size=hidden_size * 5 // 2,
        max_position_embeddings=_CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen2ForCausalLM(config), tokenizer


def train_tokenizer(texts: Iterable[str], vocab_size: int, max_length: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE with Qwen's splitting (each digit alone), ChatML and `<|mask|>`.

    `vocab_size` counts the 256 bytes and the special tokens; `max_length` is the model's context in tokens.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_QWEN_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [PAD_TOKEN, TURN_START, TURN_END, MASK_TOKEN]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=TURN_END,
        pad_token=PAD_TOKEN,
        mask_token=MASK_TOKEN,
        additional_special_tokens=[TURN_START],
        chat_template=CHAT_TEMPLATE,
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
    )


def add_mask_token(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Give the tokenizer `<|mask|>` if it has none, in a spare embedding row or a new one; returns its id.

    A new row starts as the mean of the embeddings.
    """
    if tokenizer.convert_tokens_to_ids(MASK_TOKEN) in (None, tokenizer.unk_token_id):
        tokenizer.add_special_tokens({"mask_token": MASK_TOKEN})
    tokenizer.mask_token = MASK_TOKEN
    mask_id = int(tokenizer.convert_tokens_to_ids(MASK_TOKEN))
    if mask_id >= model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(mask_id + 1, mean_resizing=True)
    return mask_id
