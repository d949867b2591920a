"""A GGUF file of the tiny kind, written by the gguf package, and a cache directory of the test's own."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGUFWriter, TokenType
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from mars.checkpoint.weights import folder_fingerprint

GGUF_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory, which nothing but this test uses."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("MARS_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session")
def tiny_llama(tiny_sizes: dict[str, Any]) -> PreTrainedModel:
    """A Llama with random weights, tied, float32."""
    torch.manual_seed(2)
    return LlamaForCausalLM(LlamaConfig(**tiny_sizes, tie_word_embeddings=True)).eval()


@pytest.fixture(scope="session")
def write_gguf(tiny_tokenizer: PreTrainedTokenizerFast) -> Callable[..., Path]:
    """`write_gguf(path, model)`: the model and the tiny tokenizer as llama.cpp writes them, in float32.

    `tensors` are the most that a file has: with a limit there are several. `pieces` writes another tokenizer.
    """

    def write(
        path: Path,
        model: PreTrainedModel,
        architecture: str | None = None,
        tensors: int = 0,
        pieces: Callable[[GGUFWriter], None] | None = None,
        **more: str,
    ) -> Path:
        writer = GGUFWriter(path, architecture or model.config.model_type, split_max_tensors=tensors)
        _add_settings(writer, model)
        for key, value in more.items():
            writer.add_string(f"{writer.arch}.{key.replace('__', '.')}", value)
        if pieces is None:
            _add_tokenizer(writer, tiny_tokenizer)
        else:
            pieces(writer)
        for name, weight in model.state_dict().items():
            if name == "lm_head.weight" and model.config.tie_word_embeddings:
                continue
            writer.add_tensor(_gguf_name(name), _in_pairs(model, name, weight).contiguous().numpy())
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write


@pytest.fixture
def tiny_gguf(tmp_path: Path, tiny_llama: PreTrainedModel, write_gguf: Callable[..., Path]) -> Path:
    """The tiny Llama as a file of the test's own."""
    return write_gguf(tmp_path / "tiny-llama.gguf", tiny_llama)


def _add_settings(writer: GGUFWriter, model: PreTrainedModel) -> None:
    config = model.config
    writer.add_name("tiny")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)


def _add_tokenizer(writer: GGUFWriter, tokenizer: PreTrainedTokenizerFast) -> None:
    described = json.loads(tokenizer.backend_tokenizer.to_str())
    special = set(tokenizer.all_special_ids)
    tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([TokenType.CONTROL if n in special else TokenType.NORMAL for n in range(len(tokens))])
    writer.add_token_merges([" ".join(pair) for pair in described["model"]["merges"]])
    writer.add_bos_token_id(tokenizer.convert_tokens_to_ids("<|im_start|>"))
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_chat_template(tokenizer.chat_template)


def _gguf_name(name: str) -> str:
    stem, _, kind = name.rpartition(".")
    if stem in WHOLE:
        return f"{WHOLE[stem]}.{kind}"
    _, _, number, inner = stem.split(".", 3)
    return f"blk.{number}.{GGUF_NAMES[inner]}.{kind}"


def _in_pairs(model: PreTrainedModel, name: str, weight: torch.Tensor) -> torch.Tensor:
    """llama.cpp has the two rows that are turned together side by side, for Llama."""
    heads = {"q_proj": model.config.num_attention_heads, "k_proj": model.config.num_key_value_heads}
    found = next((count for part, count in heads.items() if f"{part}.weight" in name), None)
    if model.config.model_type != "llama" or found is None:
        return weight
    return weight.view(found, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


@pytest.fixture
def llama_folder(tmp_path: Path, tiny_llama: PreTrainedModel, tiny_tokenizer: PreTrainedTokenizerFast) -> Path:
    """The tiny Llama as a checkpoint folder of the test's own: the base of `write_adapter`."""
    folder = tmp_path / "tiny-base"
    tiny_llama.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def write_adapter(tmp_path: Path, tiny_llama: PreTrainedModel, llama_folder: Path) -> Callable[..., Path]:
    """`write_adapter()`: an adapter of the tiny Llama with random weights, its LoRA saved by PEFT itself."""

    def write(**record: Any) -> Path:
        torch.manual_seed(3)
        wanted = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"])
        model = get_peft_model(copy.deepcopy(tiny_llama), wanted)
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.data.normal_(std=0.2)
        folder = tmp_path / "tiny-adapter"
        model.save_pretrained(folder)
        save_file({"mask_embeddings": torch.randn(1, 32)}, folder / "masks.safetensors")
        described = {
            "stage": "adapter",
            "mode": "merged",
            "block_size": 4,
            "base": {"name": str(llama_folder), "fingerprint": folder_fingerprint(llama_folder)},
            **record,
        }
        (folder / "mars.json").write_text(json.dumps(described))
        return folder

    return write
