"""GGUF files: the same model as the one that was written, and one sentence for each file that holds none."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGUFWriter
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from mars.chat import encode_beginning, encode_prompt, encode_text
from mars.checkpoint import CheckpointError, load_checkpoint
from mars.checkpoint.converted import convert, file_hash
from mars.checkpoint.sources import locate
from mars.checkpoint.weights import load_model, load_tokenizer, read_config
from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.metrics import output_ids

PROMPT = [9, 10, 11, 12]


def silent(sentence: str, share: float) -> None:
    pass


@pytest.fixture
def converted(tiny_gguf: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "converted"
    folder.mkdir()
    convert(tiny_gguf, folder, silent)
    return folder


def state(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    return {name: weight.to(torch.bfloat16) for name, weight in model.state_dict().items()}


def loaded(folder: Path) -> dict[str, torch.Tensor]:
    return state(load_model(folder, *read_config(folder), torch.bfloat16))


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert not [name for name in one if not torch.equal(one[name], other[name])]


def assert_same_config(folder: Path, file: Path) -> None:
    ours = AutoConfig.from_pretrained(folder).to_dict()
    theirs = AutoConfig.from_pretrained(file.parent, gguf_file=file.name).to_dict()
    names = {"_name_or_path", "_model_name_or_path", "architectures", "dtype", "torch_dtype", "quantization_config"}
    assert {**ours, **dict.fromkeys(names)} == {**theirs, **dict.fromkeys(names)}


def test_weights_are_those_of_transformers(converted: Path, tiny_gguf: Path, tiny_llama: PreTrainedModel) -> None:
    theirs = AutoModelForCausalLM.from_pretrained(tiny_gguf.parent, gguf_file=tiny_gguf.name, dtype=torch.float32)
    found = loaded(converted)
    assert_same(found, state(tiny_llama))
    assert_same(found, state(theirs))
    assert_same_config(converted, tiny_gguf)


def test_qwen2_with_biases_and_own_vocabulary_matrix(
    tmp_path: Path, tiny_model: PreTrainedModel, write_gguf: Callable[..., Path]
) -> None:
    assert not tiny_model.config.tie_word_embeddings
    file = write_gguf(tmp_path / "tiny-qwen2.gguf", tiny_model)
    (tmp_path / "out").mkdir()
    convert(file, tmp_path / "out", silent)
    assert_same(loaded(tmp_path / "out"), state(tiny_model))
    assert_same_config(tmp_path / "out", file)


def test_the_tokenizer_is_the_same(converted: Path, tiny_tokenizer: PreTrainedTokenizerFast) -> None:
    found = load_tokenizer(converted)
    assert found.get_vocab() == tiny_tokenizer.get_vocab()
    assert found.chat_template == tiny_tokenizer.chat_template
    assert (found.eos_token, found.pad_token) == (tiny_tokenizer.eos_token, tiny_tokenizer.pad_token)
    text = "Write a function that adds apples.<|im_end|>\n"
    assert found.decode(found(text)["input_ids"]) == text
    assert tiny_tokenizer.eos_token_id in found(text)["input_ids"]


def test_a_gguf_file_is_a_source(cache: Path, tiny_gguf: Path, tiny_llama: PreTrainedModel) -> None:
    checkpoint = load_checkpoint(tiny_gguf, dtype="float32", device="cpu")
    assert (checkpoint.name, checkpoint.record, checkpoint.supports_masks) == ("tiny-llama", {}, False)
    assert checkpoint.engine.stop_token_ids == {tiny_llama.config.eos_token_id}
    assert checkpoint.engine.context_length == 384
    rounded = load_checkpoint(next(cache.glob("tiny-llama-*/")), dtype="float32", device="cpu").engine.model
    reference = rounded.generate(
        torch.tensor([PROMPT]), attention_mask=torch.ones(1, 4, dtype=torch.long), do_sample=False, max_new_tokens=24
    )
    settings = DecodingSettings(max_new_tokens=24)
    assert output_ids(DECODERS["autoregressive"](checkpoint.engine, [PROMPT], settings)) == reference[0, 4:].tolist()


@pytest.mark.parametrize("size", [-5000, 300, 0, None], ids=["cut", "cut in the head", "empty", "a pointer of git-lfs"])
def test_a_broken_file_is_one_sentence(
    cache: Path, tiny_gguf: Path, size: int | None, capfd: pytest.CaptureFixture[str]
) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"
    tiny_gguf.write_bytes(pointer if size is None else tiny_gguf.read_bytes()[:size])
    with pytest.raises(CheckpointError, match=r"tiny-llama\.gguf is no whole GGUF file .*: copy or download it again"):
        load_checkpoint(tiny_gguf, device="cpu")
    assert capfd.readouterr() == ("", "")
    assert not list(cache.glob("*/"))


def test_other_architectures_are_refused(
    cache: Path, tmp_path: Path, tiny_llama: PreTrainedModel, write_gguf: Callable[..., Path]
) -> None:
    file = write_gguf(tmp_path / "gemma.gguf", tiny_llama, architecture="gemma2")
    with pytest.raises(CheckpointError, match=r"of architecture 'gemma2', only llama and qwen2 can be read"):
        load_checkpoint(file)
    file = write_gguf(tmp_path / "scaled.gguf", tiny_llama, rope__scaling__type="yarn")
    with pytest.raises(CheckpointError, match=r"scales its rotary positions, .*: take the safetensors"):
        load_checkpoint(file)


def test_a_file_without_all_its_weights_is_refused(cache: Path, tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "few.gguf", "llama")
    writer.add_string("general.name", "few")
    writer.add_tensor("output_norm.weight", torch.ones(8).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(CheckpointError, match=r"few\.gguf"):
        load_checkpoint(tmp_path / "few.gguf")


def test_a_split_model_is_read_from_all_parts(
    cache: Path, tmp_path: Path, tiny_model: PreTrainedModel, write_gguf: Callable[..., Path]
) -> None:
    """The matrix of the vocabulary is not in the first part."""
    write_gguf(tmp_path / "tiny.gguf", tiny_model, tensors=9)
    parts = sorted(tmp_path.glob("tiny-*.gguf"))
    assert [part.name for part in parts] == [f"tiny-0000{n}-of-00003.gguf" for n in range(1, 4)]
    for part in parts[:2]:
        assert_same(loaded(locate(part)[0]), state(tiny_model))
    first, second = (file_hash(part) for part in parts[:2])
    parts[2].write_bytes(parts[2].read_bytes()[:-4] + b"abcd")
    changed = locate(parts[0])[0]
    assert first != second
    assert len(list(cache.glob("tiny-00001-of-00003-*/"))) == 2
    with pytest.raises(AssertionError):
        assert_same(loaded(changed), state(tiny_model))


def test_a_part_alone_is_called_so(
    cache: Path, tmp_path: Path, tiny_model: PreTrainedModel, write_gguf: Callable[..., Path]
) -> None:
    write_gguf(tmp_path / "tiny.gguf", tiny_model, tensors=9)
    second = tmp_path / "tiny-00002-of-00003.gguf"
    (tmp_path / "tiny-00003-of-00003.gguf").unlink()
    with pytest.raises(CheckpointError, match=r"is part 2 of 3, and tiny-00003-of-00003\.gguf is not beside it"):
        load_checkpoint(second)
    for number in (1, 2):
        renamed = shutil.copy(tmp_path / f"tiny-0000{number}-of-00003.gguf", tmp_path / "renamed.gguf")
        with pytest.raises(
            CheckpointError, match=rf"renamed\.gguf is part {number} of 3: put all parts into one folder"
        ):
            load_checkpoint(renamed)


PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "ab", "▁ab"]


@pytest.mark.parametrize("prefix", [None, True, False])
@pytest.mark.parametrize("begins", [None, True, False])
def test_space_and_beginning_are_as_the_file_says(
    tmp_path: Path,
    tiny_sizes: dict[str, Any],
    write_gguf: Callable[..., Path],
    prefix: bool | None,
    begins: bool | None,
) -> None:
    def write(writer: GGUFWriter) -> None:
        writer.add_tokenizer_model("llama")
        writer.add_token_list(PIECES)
        writer.add_token_scores([-float(number) for number in range(len(PIECES))])
        writer.add_token_types([2, 3, 3, *[6] * 256, *[1] * 5])
        for number, add in enumerate((writer.add_unk_token_id, writer.add_bos_token_id, writer.add_eos_token_id)):
            add(number)
        for value, add_flag in ((prefix, writer.add_add_space_prefix), (begins, writer.add_add_bos_token)):
            if value is not None:
                add_flag(value)

    sizes = {**tiny_sizes, "vocab_size": len(PIECES), "num_hidden_layers": 1}
    model = LlamaForCausalLM(LlamaConfig(**sizes, tie_word_embeddings=True))
    file = write_gguf(tmp_path / "pieces.gguf", model, pieces=write)
    (tmp_path / "out").mkdir()
    convert(file, tmp_path / "out", silent)
    tokenizer = load_tokenizer(tmp_path / "out")
    beginning = [] if begins is False else ["<s>"]
    text = ["ab"] if prefix is False else ["▁ab"]
    assert tokenizer.convert_ids_to_tokens(encode_beginning(tokenizer, "ab")) == beginning + text
    assert tokenizer.convert_ids_to_tokens(encode_beginning(tokenizer, "<s>")).count("<s>") == len(beginning)
    assert tokenizer.decode(encode_text(tokenizer, "ab ab")) == "ab ab"
    tokenizer.chat_template = "{{ bos_token + messages[0]['content'] }}"
    assert tokenizer.convert_ids_to_tokens(encode_prompt(tokenizer, "ab"))[0] == "<s>"
    assert encode_prompt(tokenizer, "<s>ab").count(1) == 1


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("block_count", 10**8, "describes 100,000,000 layers"),
        ("block_count", 9_000, "describes .* weights, the files have"),
        ("block_count", 0, "describes no llama model"),
        ("attention.head_count", 0, "no whole GGUF file|describes no llama model"),
        ("attention.head_count", 7, "no whole GGUF file|describes no llama model"),
        ("embedding_length", 0, "no whole GGUF file|describes no llama model"),
        ("feed_forward_length", 2**31 - 1, "describes .* weights, the files have"),
        ("split.count", 7, "is part 1 of 7"),
    ],
)
def test_sizes_are_checked_before_memory(
    tmp_path: Path,
    tiny_llama: PreTrainedModel,
    write_gguf: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    value: int,
    says: str,
) -> None:
    add = GGUFWriter.add_key_value

    def changed(writer: GGUFWriter, name: str, was: Any, *rest: Any) -> None:
        add(writer, name, value if name == f"llama.{key}" else was, *rest)

    def end(writer: GGUFWriter) -> None:
        if key.startswith("split"):
            writer.add_uint16(key, value)
        end_header(writer)

    end_header = GGUFWriter.write_header_to_file
    monkeypatch.setattr(GGUFWriter, "add_key_value", changed)
    monkeypatch.setattr(GGUFWriter, "write_header_to_file", end)
    file = write_gguf(tmp_path / "strange.gguf", tiny_llama)
    (tmp_path / "out").mkdir()
    with pytest.raises(CheckpointError, match=rf"strange\.gguf.*({says})"):
        convert(file, tmp_path / "out", silent)


def test_there_must_be_a_file() -> None:
    with pytest.raises(CheckpointError, match=r"there is no file absent\.gguf: give a GGUF file"):
        load_checkpoint("absent.gguf")
