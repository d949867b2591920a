"""`model.generate(custom_generate=…)` through `transformers` itself, on the tiny checkpoint."""

import copy
import gc
import re
import shutil
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedModel, TextStreamer

from mars.checkpoint import Checkpoint
from mars.config import DecodingSettings
from mars.decoders import TABLE
from mars.decoding import DECODERS
from mars.hub import find_engine
from mars.metrics import output_ids

ROOT = Path(__file__).parent.parent
PROMPTS = ("Tom has 3 apples.", "Write a function that adds two numbers and says so.", "x")
ALONE = [info.name for info in TABLE.values() if not info.draft]


@pytest.fixture(scope="module")
def model(tiny_folder: Path) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(tiny_folder).eval()


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that `transformers` copies goes to a folder of the test."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def batch(tiny: Checkpoint) -> dict[str, torch.Tensor]:
    """The prompts, padded on the left."""
    rows = [tiny.encode(prompt) for prompt in PROMPTS]
    longest = max(map(len, rows))
    pad = tiny.tokenizer.pad_token_id
    return {
        "input_ids": torch.tensor([[pad] * (longest - len(row)) + row for row in rows]),
        "attention_mask": torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows]),
    }


@pytest.fixture
def one(tiny: Checkpoint) -> dict[str, torch.Tensor]:
    return {"input_ids": torch.tensor([tiny.encode(PROMPTS[0])])}


def write(model: PreTrainedModel, inputs: dict[str, torch.Tensor], **options: Any) -> Any:
    options = {"max_new_tokens": 24, **options}
    return model.generate(**inputs, custom_generate=str(ROOT), trust_remote_code=True, **options)


def test_one_token_mode_is_greedy_generate(model: PreTrainedModel, batch: dict[str, torch.Tensor]) -> None:
    greedy = model.generate(**batch, do_sample=False, max_new_tokens=24)
    assert torch.equal(write(model, batch, threshold=None), greedy)
    assert torch.equal(write(model, batch, decoder="self_speculative"), greedy)
    assert torch.equal(write(model, batch, decoder="autoregressive", threshold=0.5), greedy)


@pytest.mark.parametrize("decoder", ALONE)
def test_the_text_is_the_decoder_s(
    decoder: str, model: PreTrainedModel, one: dict[str, torch.Tensor], tiny: Checkpoint
) -> None:
    # Under layout auto the text of `relaxed` depends on the time that passes take.
    options: dict[str, Any] = {"threshold": 0.3, "layout": "quadratic" if decoder == "relaxed" else "auto"}
    found = write(model, one, decoder=decoder, return_dict_in_generate=True, **options)
    settings = DecodingSettings(block_size=4, max_new_tokens=24, **options)
    prompt = one["input_ids"][0].tolist()
    expected = output_ids(DECODERS[decoder](tiny.engine, [prompt], settings))
    assert found.sequences.tolist() == [prompt + expected]
    assert output_ids(found.records) == expected


def test_a_block_diffusion_model_is_refused(one: dict[str, torch.Tensor], tiny_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_folder, tmp_path / "blocks")
    (tmp_path / "blocks" / "mars.json").write_text('{"stage": "block_diffusion", "block_size": 4}')
    with pytest.raises(ValueError, match="was trained by block diffusion"):
        write(AutoModelForCausalLM.from_pretrained(tmp_path / "blocks"), one, decoder="autoregressive")


def test_mask_and_block_size_are_the_trainings(model: PreTrainedModel, one: dict[str, torch.Tensor]) -> None:
    found = write(model, one, threshold=0.95, return_dict_in_generate=True)
    assert len(found.records[1].rows[0].proposals) == 4
    found = write(model, one, block_size=6, score="entropy", return_dict_in_generate=True)
    assert len(found.records[1].rows[0].proposals) == 6
    assert found.records[1].rows[0].threshold == 0.3


@pytest.mark.parametrize("masked", [True, False])
def test_a_padded_row_gets_what_it_gets_alone(
    masked: bool, model: PreTrainedModel, batch: dict[str, torch.Tensor], tiny: Checkpoint
) -> None:
    inputs = batch if masked else {"input_ids": batch["input_ids"]}
    found = write(model, inputs, threshold=0.3)
    pad, width = tiny.tokenizer.pad_token_id, batch["input_ids"].shape[1]
    for row, prompt in enumerate(PROMPTS):
        alone = write(model, {"input_ids": torch.tensor([tiny.encode(prompt)])}, threshold=0.3)
        text = alone[0, len(tiny.encode(prompt)) :].tolist()
        assert found[row, width:].tolist() == text + [pad] * (found.shape[1] - width - len(text))


def test_texts_end_at_eos_and_are_padded(model: PreTrainedModel, batch: dict[str, torch.Tensor]) -> None:
    plain = write(model, batch, threshold=None)
    stop = int(plain[0, batch["input_ids"].shape[1] + 2])
    found = write(model, batch, threshold=None, eos_token_id=[stop], pad_token_id=7)
    assert torch.equal(
        found, model.generate(**batch, do_sample=False, max_new_tokens=24, eos_token_id=[stop], pad_token_id=7)
    )


def test_rows_without_an_end_need_no_padding(model: PreTrainedModel, batch: dict[str, torch.Tensor]) -> None:
    ends, model.generation_config.pad_token_id = model.generation_config.pad_token_id, None
    try:
        for none in ({"eos_token_id": []}, {"generation_config": GenerationConfig(eos_token_id=[], max_new_tokens=24)}):
            found = write(model, batch, threshold=None, **none)
            assert found.shape[1] == batch["input_ids"].shape[1] + 24
            plain = write(model, batch, threshold=None, eos_token_id=[383], pad_token_id=7)
            assert torch.equal(found, plain)
    finally:
        model.generation_config.pad_token_id = ends


def test_sampling_is_decided_by_seed_or_torch(model: PreTrainedModel, one: dict[str, torch.Tensor]) -> None:
    drawn = [write(model, one, do_sample=True, temperature=1.5, seed=seed).tolist() for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    exact = write(model, one, do_sample=True, temperature=1.5, seed=1, decoder="self_speculative")
    assert exact.tolist() == write(model, one, do_sample=True, temperature=1.5, seed=1, threshold=None).tolist()
    torch.manual_seed(3)
    first = write(model, one, do_sample=True, temperature=1.5)
    torch.manual_seed(3)
    assert torch.equal(write(model, one, do_sample=True, temperature=1.5), first)


@pytest.mark.filterwarnings("ignore:Using the model-agnostic default:UserWarning")
def test_lengths_are_those_of_generate(model: PreTrainedModel, one: dict[str, torch.Tensor]) -> None:
    length = one["input_ids"].shape[1]
    for options in (
        {"max_new_tokens": 3},
        {"max_new_tokens": None},
        {"max_new_tokens": None, "max_length": length + 2},
    ):
        greedy = model.generate(**one, do_sample=False, eos_token_id=383, **options)
        assert torch.equal(write(model, one, threshold=None, eos_token_id=383, **options), greedy)
    config = GenerationConfig(max_new_tokens=5, eos_token_id=383)
    assert write(model, one, max_new_tokens=None, generation_config=config).shape[1] == length + 5


def test_an_assistant_drafts(model: PreTrainedModel, tiny_folder: Path, batch: dict[str, torch.Tensor]) -> None:
    greedy = model.generate(**batch, do_sample=False, max_new_tokens=24)
    draft = AutoModelForCausalLM.from_pretrained(tiny_folder)
    found = write(model, batch, decoder="speculative", assistant_model=draft, return_dict_in_generate=True)
    assert torch.equal(found.sequences, greedy)
    assert {"draft", "verify"} <= {record.phase for record in found.records}
    with pytest.raises(ValueError, match="decoder='speculative' needs assistant_model"):
        write(model, batch, decoder="speculative")


def test_a_streamer_is_told_every_token(
    model: PreTrainedModel, one: dict[str, torch.Tensor], tiny: Checkpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    found = write(model, one, threshold=0.3, streamer=TextStreamer(tiny.tokenizer, skip_prompt=True))
    text = tiny.tokenizer.decode(found[0, one["input_ids"].shape[1] :])
    assert capsys.readouterr().out.rstrip("\n") == text.rstrip("\n")


def test_weights_that_change_are_seen(tiny_folder: Path, one: dict[str, torch.Tensor]) -> None:
    changing = AutoModelForCausalLM.from_pretrained(tiny_folder)
    before = find_engine(changing, frozenset({2}), None)
    assert find_engine(changing, frozenset({2}), None) is before
    with torch.no_grad():
        for parameter in changing.parameters():
            parameter.mul_(-0.7)
    greedy = changing.generate(**one, do_sample=False, max_new_tokens=24)
    assert torch.equal(write(changing, one, threshold=None), greedy)
    changing.train()
    find_engine(changing, frozenset({3}), None)
    assert changing.training


def test_a_model_goes_with_its_last_user(tiny_folder: Path, one: dict[str, torch.Tensor]) -> None:
    """Its engine is no other user; a copy of it has an engine of its own."""
    model = AutoModelForCausalLM.from_pretrained(tiny_folder).eval()
    written = write(model, one)
    copied = copy.deepcopy(model)
    engine, gone = find_engine(model, frozenset({2}), None), weakref.ref(model)
    assert find_engine(copied, frozenset({2}), None).model is copied
    del model, engine
    gc.collect()
    assert gone() is None
    assert torch.equal(write(copied, one), written)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"decoder": "magic"}, "decoder must be one of autoregressive"),
        ({"threshold": 1.5}, "threshold must be between 0 and 1 for probability"),
        ({"block_size": 0}, "block_size must be between 1 and 64"),
        ({"treshold": 0.9}, "does not take treshold"),
        ({"num_beams": 4}, "does not take num_beams"),
        ({"logits_processor": [print]}, "does not take logits_processor"),
        ({"max_new_tokens": 4000}, "max_new_tokens must be < the context length of 384"),
        ({"max_new_tokens": None, "max_length": 3}, "max_length is 3: pass max_new_tokens"),
        ({"assistant_model": object()}, "assistant_model is for decoder='speculative'"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    options: dict[str, Any], sentence: str, model: PreTrainedModel, one: dict[str, torch.Tensor]
) -> None:
    with pytest.raises(ValueError, match=sentence):
        write(model, one, **options)


def test_what_only_the_models_config_asks_is_named(
    model: PreTrainedModel,
    one: dict[str, torch.Tensor],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model.generation_config, "repetition_penalty", 1.1)
    monkeypatch.setattr(model.generation_config, "top_k", 20)
    write(model, one, repetition_penalty=1.0, num_beams=1, top_k=0, prefix_allowed_tokens_fn=None)
    assert caplog.messages == ["not applied, although the generation config sets it: repetition_penalty"]
    write(model, one, do_sample=True, max_new_tokens=2)
    assert caplog.messages[1].endswith("repetition_penalty, top_k")


def test_prompts_must_be_padded_on_the_left(model: PreTrainedModel, batch: dict[str, torch.Tensor]) -> None:
    wrong = {name: tensor.flip(1) for name, tensor in batch.items()}
    with pytest.raises(ValueError, match="padding_side = 'left'"):
        write(model, wrong)
    with pytest.raises(ValueError, match="give input_ids"):
        write(model, {"input_ids": batch["input_ids"][0]})
    with pytest.raises(ValueError, match="prompt 2 is empty"):
        write(model, {**batch, "attention_mask": batch["attention_mask"] * torch.tensor([[1], [1], [0]])})


def test_an_untrained_mask_is_not_used(
    model: PreTrainedModel, one: dict[str, torch.Tensor], tiny: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "name_or_path", "somewhere/else")
    with pytest.raises(ValueError, match="sliding_window needs a model trained to fill masks"):
        write(model, one)
    greedy = model.generate(**one, do_sample=False, max_new_tokens=24)
    assert torch.equal(write(model, one, decoder="autoregressive"), greedy)
    by_tokenizer = write(model, one, tokenizer=tiny.tokenizer, block_size=4)
    by_id = write(model, one, mask_token_id=tiny.engine.mask_token_id, block_size=4)
    assert torch.equal(by_tokenizer, by_id)


def test_without_the_package_it_says_how(tmp_path: Path) -> None:
    code = (ROOT / "custom_generate" / "generate.py").read_text(encoding="utf-8")
    file = tmp_path / "generate.py"
    file.write_text(code, encoding="utf-8")
    done = subprocess.run([sys.executable, "-S", "-I", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(r"ImportError: .*needs the Python package mars-lens.*pip install PATH", done.stderr)


def test_the_readme_s_example_runs(capsys: pytest.CaptureFixture[str], one_thread: None) -> None:
    page = (ROOT / "custom_generate" / "README.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    exec(compile(example, "README.md", "exec"), {"PATH": str(ROOT)})
    assert "####" in capsys.readouterr().out
