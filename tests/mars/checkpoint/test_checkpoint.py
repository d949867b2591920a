"""Loading: every kind of folder that is read, and a sentence for every kind that is not."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from mars.checkpoint.calibration import Scores, scores_in
from mars.checkpoint.checkpoint import Checkpoint, CheckpointError, choose_dtype, load_checkpoint
from mars.checkpoint.sources import unavailable
from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.engine.backends import can_be_invariant
from mars.metrics import output_ids
from tests.mars.tiny import edit

PROMPT = [9, 10, 11, 12]
WEIGHTS = "model.safetensors"
HOSTILE = "import pathlib\npathlib.Path(__file__).with_name('executed').touch()\n"


@pytest.fixture
def folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny checkpoint that a test may break."""
    return Path(shutil.copytree(tiny_folder, tmp_path / "copy"))


def written(checkpoint: Checkpoint, decoder: str) -> list[int]:
    settings = DecodingSettings(block_size=4, threshold=0.3, max_new_tokens=24)
    return output_ids(DECODERS[decoder](checkpoint.engine, [PROMPT], settings))


def as_published(folder: Path, name: str) -> Path:
    """What the published MARS folders look like, with remote code that must not run."""
    target = Path(shutil.copytree(folder, folder.parent / name))
    (target / "mars.json").unlink()
    (target / "modeling_a2d.py").write_text(HOSTILE)
    edit(
        target / "config.json",
        model_type="a2d-qwen2",
        architectures=["A2DQwen2LMHeadModel"],
        auto_map={
            "AutoConfig": "modeling_a2d.A2DQwen2Config",
            "AutoModelForCausalLM": "modeling_a2d.A2DQwen2LMHeadModel",
        },
    )
    return target


def test_ours(tiny: Checkpoint, tiny_tokenizer: PreTrainedTokenizerFast) -> None:
    assert (tiny.name, tiny.block_size, tiny.supports_masks) == ("tiny-mars", 4, True)
    assert tiny.record == {"stage": "mars", "block_size": 4, "sft_loss": True}
    assert tiny.engine.mask_token_id == tiny_tokenizer.mask_token_id
    assert tiny.engine.stop_token_ids == {tiny_tokenizer.eos_token_id}
    assert (tiny.engine.context_length, tiny.engine.vocab_size) == (384, 320)


def test_special_tokens_end_turns_or_are_the_templates(tiny: Checkpoint) -> None:
    begin, end = (tiny.tokenizer.convert_tokens_to_ids(token) for token in ("<|im_start|>", "<|im_end|>"))
    assert end in tiny.engine.stop_token_ids
    assert begin in tiny.engine.template_ids
    assert not tiny.engine.stop_token_ids & tiny.engine.template_ids
    assert tiny.decode(sorted(tiny.engine.template_ids)) == ""


def test_sft_and_plain_qwen2_have_no_masks(folder: Path) -> None:
    (folder / "mars.json").write_text('{"stage": "sft", "block_size": null, "sft_loss": null}')
    checkpoint = load_checkpoint(folder, device="cpu")
    assert (checkpoint.block_size, checkpoint.supports_masks, checkpoint.engine.mask_token_id) == (None, False, None)
    with pytest.raises(ValueError, match="was not trained to fill masks"):
        written(checkpoint, "sliding_window")
    (folder / "mars.json").unlink()
    plain = load_checkpoint(folder, device="cpu")
    assert (plain.block_size, plain.supports_masks, plain.record) == (None, False, {})


def test_published_mars_loads_as_qwen2_and_runs_nothing(folder: Path, tiny: Checkpoint) -> None:
    target = as_published(folder, "MARS-Qwen2.5-0.5B-blk8")
    checkpoint = load_checkpoint(target, dtype="float32", device="cpu")
    assert (checkpoint.name, checkpoint.block_size, checkpoint.record) == ("MARS-Qwen2.5-0.5B-blk8", 8, {})
    assert checkpoint.supports_masks
    assert written(checkpoint, "sliding_window") == written(tiny, "sliding_window")
    assert not (target / "executed").exists()


@pytest.mark.parametrize(
    ("name", "block_size", "masks"),
    [("MARS-Qwen2.5-0.5B-blk16-no-sft", 16, True), ("MARS-Qwen2.5-0.5B-AR-SFT", None, False), ("blk999", None, True)],
)
def test_published_names_tell_the_kind(folder: Path, name: str, block_size: int | None, masks: bool) -> None:
    checkpoint = load_checkpoint(as_published(folder, name), device="cpu")
    assert (checkpoint.block_size, checkpoint.supports_masks) == (block_size, masks)


def test_plain_llama(tmp_path: Path, tiny_tokenizer: PreTrainedTokenizerFast, tiny_sizes: dict[str, Any]) -> None:
    torch.manual_seed(1)
    stops = [tiny_tokenizer.eos_token_id, 77]
    model = LlamaForCausalLM(LlamaConfig(**{**tiny_sizes, "eos_token_id": stops})).eval()
    model.save_pretrained(tmp_path / "llama")
    tiny_tokenizer.save_pretrained(tmp_path / "llama")
    checkpoint = load_checkpoint(tmp_path / "llama", dtype="float32", device="cpu")
    assert checkpoint.engine.stop_token_ids == {tiny_tokenizer.eos_token_id, 77}
    reference = model.generate(
        torch.tensor([PROMPT]),
        attention_mask=torch.ones(1, 4, dtype=torch.long),
        do_sample=False,
        max_new_tokens=24,
        pad_token_id=0,
    )
    assert written(checkpoint, "autoregressive") == reference[0, 4:].tolist()


def test_weights_in_several_files(tiny_model: PreTrainedModel, folder: Path, tiny: Checkpoint) -> None:
    (folder / "model.safetensors").unlink()
    tiny_model.save_pretrained(folder, max_shard_size="40KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    assert written(load_checkpoint(folder, device="cpu"), "sliding_window") == written(tiny, "sliding_window")
    next(iter(sorted(folder.glob("*.safetensors")))).unlink()
    with pytest.raises(CheckpointError, match=r"names other files than the"):
        load_checkpoint(folder, device="cpu")


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def put(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(text) and None


def configure(**changes: object) -> Callable[[Path], None]:
    return lambda folder: edit(folder / "config.json", **changes)


def truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def lose_a_weight(folder: Path) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, path, metadata={"format": "pt"})


def add_a_weight(folder: Path) -> None:
    path = folder / "model.safetensors"
    save_file({**load_file(path), "model.layers.0.self_attn.o_proj.bias": torch.ones(32)}, path)


def forget_the_mask(folder: Path) -> None:
    for path in folder.glob("tokenizer*.json"):
        path.write_text(path.read_text().replace("<|mask|>", "<|gone|>"))


def add_a_far_token(folder: Path) -> None:
    path = folder / "tokenizer.json"
    described = json.loads(path.read_text())
    described["model"]["vocab"]["far"] = 1_000_000
    path.write_text(json.dumps(described))


BROKEN = [
    (remove("config.json"), r"config\.json is missing: give a folder with"),
    (put("config.json", "{not json"), r"config\.json cannot be read as JSON .*: copy or download it again"),
    (put("config.json", "[]"), r"config\.json must hold a JSON object, got list"),
    (configure(model_type="gpt2"), r"config\.json: model_type must be one of qwen2, llama, a2d-qwen2, got 'gpt2'"),
    (configure(num_hidden_layers="two"), r"config\.json describes no qwen2 model .*: download it again"),
    (
        configure(use_sliding_window=True, sliding_window=16, max_window_layers=0, layer_types=None),
        r"config\.json: only full attention is supported; set use_sliding_window to false",
    ),
    (configure(vocab_size=300), r"tokenizer\.json has 320 tokens, but config\.json says vocab_size 300"),
    (configure(hidden_size=64), r"model\.safetensors has \d+ weights of the wrong shape for its config\.json"),
    (truncate, r"model\.safetensors is broken .*: copy or download it again"),
    (put("model.safetensors", "version https://git-lfs"), r"model\.safetensors is broken"),
    (remove("model.safetensors"), r"has no \*\.safetensors: download the weights"),
    (
        lose_a_weight,
        r"model\.safetensors lacks 1 weights for its config\.json, model\.layers\.1\.mlp\.up_proj\.weight first",
    ),
    (remove("tokenizer.json"), r"tokenizer\.json is missing: copy tokenizer"),
    (put("tokenizer.json", "{}"), r"tokenizer\.json is broken .*: copy or download it again"),
    (put("tokenizer_config.json", "{"), "tokenizer.* broken"),
    (put("generation_config.json", "{"), r"generation_config\.json cannot be read as JSON"),
    (put("mars.json", "{"), r"mars\.json cannot be read as JSON"),
    (put("mars.json", '{"stage": "rl"}'), r"mars\.json: stage must be one of sft, mars, adapter, got 'rl'"),
    (put("mars.json", '{"stage": "block_diffusion", "block_size": 4}'), "block diffusion: commits up to 4ebfdf5"),
    (put("mars.json", '{"stage": "mars", "block_size": 0}'), r"mars\.json: block_size must be 1 to 64, got 0"),
    (put("mars.json", '{"stage": "mars"}'), r"mars\.json: block_size must be 1 to 64, got None"),
    (put("mars.json", '{"stage": "mars", "block_size": true}'), r"1 to 64, got True"),
    (
        put("mars.json", '{"stage": "mars", "block_size": 4, "calibration": {"masks": [[0, 1]]}}'),
        r"mars\.json: calibration\.masks\[0\]\[0\] must be above 0, got 0; calibrate it again",
    ),
    (
        put("mars.json", '{"stage": "mars", "block_size": 4, "default": {"threshold": 2}}'),
        r"mars\.json: default: threshold must be between 0 and 1 for probability, .* got 2",
    ),
    (configure(model_type=["qwen2"]), r"model_type must be one of qwen2, .*, got \['qwen2'\]"),
    (configure(dtype=[]), r"config\.json describes no qwen2 model"),
    (put("tokenizer_config.json", '{"model_max_length": "x"}'), r"tokenizer\.json is broken"),
    (put("mars.json", "null"), r"mars\.json must hold a JSON object, got NoneType"),
    (put("generation_config.json", '{"eos_token_id": [[1]]}'), r"eos_token_id must be a token id or a list of them"),
    (add_a_far_token, r"tokenizer\.json has 1000001 tokens, but config\.json says vocab_size 320"),
    (
        put(f"{WEIGHTS}.index.json", '{"weight_map": {"model.norm.weight": "../x.safetensors"}}'),
        "names other files than",
    ),
    (lambda folder: shutil.copy(folder / WEIGHTS, folder / "z.safetensors"), "both hold"),
    # Sizes are checked before memory is taken for them.
    (configure(num_hidden_layers=10**9, layer_types=None), "num_hidden_layers must be from 1 to"),
    (configure(num_hidden_layers=9999, layer_types=None), r"describes [\d,]+ weights"),
    (configure(vocab_size=10**10), r"describes [\d,]+ weights"),
    (configure(num_attention_heads=0), "describes no qwen2 model"),
    (configure(max_position_embeddings=-5), "describes no qwen2 model .*max_position_embeddings must be at least 1"),
    (configure(quantization_config={"quant_method": "awq"}), "quantization_config: take the model's unquantised"),
    (add_a_weight, "holds 1 weights for which its config.json has no place, model.layers.0.self_attn.o_proj.bias"),
    (forget_the_mask, r"was trained to fill masks, and its tokenizer has no <\|mask\|>: copy its own"),
    (configure(hidden_size=0), "describes no qwen2 model"),
]


@pytest.mark.parametrize(("damage", "sentence"), BROKEN, ids=[sentence[:40] for _, sentence in BROKEN])
def test_a_broken_folder_is_one_sentence(
    folder: Path, damage: Callable[[Path], None], sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    damage(folder)
    with pytest.raises(CheckpointError, match=sentence) as caught:
        load_checkpoint(folder, device="cpu")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert capfd.readouterr() == ("", "")


def test_sources_that_are_no_folder(folder: Path) -> None:
    for source, sentence in {
        "no/such/folder": "there is no folder no/such/folder",
        str(folder / "absent"): "there is no folder",
        "http://absent:8000": "there is no folder http://absent:8000: give",
        str(folder / "config.json"): "config.json is a file",
        "~nobody-here/x": "'~nobody-here/x' cannot be read",
        "x" * 300: "cannot be read .*File name too long",
    }.items():
        with pytest.raises(CheckpointError, match=sentence):
            load_checkpoint(source)
        assert unavailable(source) is None
        assert scores_in(source) == Scores()


def test_a_block_diffusion_model_is_refused(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="block diffusion model, which no decoder of MARS Lens reads"):
        load_checkpoint(as_published(folder, "MARS-Qwen2.5-0.5B-BD3LM-blk4"))


def test_a_hub_id_that_cannot_be_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unreachable(*arguments: object, **options: object) -> str:
        raise ConnectionError("no route")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.snapshot_download", unreachable)
    with pytest.raises(CheckpointError, match="Some/Model is no local folder and cannot be fetched from the Hub"):
        load_checkpoint("Some/Model")


def test_a_hub_id_is_downloaded_under_its_name(monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path) -> None:
    target = as_published(folder, "0a1b2c3d")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *arguments, **options: str(target))
    checkpoint = load_checkpoint("Xalphinions/MARS-Qwen2.5-0.5B-blk4", device="cpu")
    assert (checkpoint.name, checkpoint.block_size) == ("Xalphinions/MARS-Qwen2.5-0.5B-blk4", 4)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"dtype": "int8"}, "dtype must be one of auto, float32, bfloat16, got 'int8'"),
        ({"dtype": "float16"}, "dtype must be one of auto, float32, bfloat16, got 'float16'"),
        ({"device": "tpu"}, "device must be one of auto, cpu, cuda, got 'tpu'"),
        pytest.param(
            *({"device": "cuda"}, "device cuda: PyTorch finds no CUDA device here; use --device cpu"),
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without CUDA"),
        ),
    ],
)
def test_wrong_options(tiny_folder: Path, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(CheckpointError, match=sentence):
        load_checkpoint(tiny_folder, **options)


def test_the_dtype_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    large = LlamaConfig(hidden_size=1024, num_hidden_layers=4, vocab_size=32000)
    small = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, vocab_size=320)
    ragged = LlamaConfig(hidden_size=1024, intermediate_size=2744, num_hidden_layers=4)
    cpu = torch.device("cpu")
    monkeypatch.setattr("mars.engine.backends.find_spec", lambda package: None)
    assert choose_dtype("auto", cpu, large) == torch.float32, "without numba there are no kernels for bfloat16"
    monkeypatch.undo()
    known = can_be_invariant(cpu, torch.bfloat16, large)
    assert choose_dtype("auto", cpu, large) == (torch.bfloat16 if known else torch.float32)
    for config in (small, ragged, None):
        assert choose_dtype("auto", cpu, config) == torch.float32
    assert choose_dtype("float32", cpu, large) == torch.float32
    assert choose_dtype("auto", torch.device("cuda"), small) == torch.bfloat16


def test_labels_take_no_memory(folder: Path) -> None:
    edit(folder / "config.json", num_labels=10**8)
    assert len(load_checkpoint(folder).engine.config.id2label) == 2
