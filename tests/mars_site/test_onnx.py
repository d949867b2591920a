"""`python -m mars_site.onnx`: the graph in ONNX Runtime against the model in transformers, and its files."""

import hashlib
import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from mars.checkpoint import CheckpointError  # noqa: E402
from mars.checkpoint.adapter import WEIGHTS_FILE, load_adapter, merge  # noqa: E402
from mars.checkpoint.weights import load_model, load_tokenizer, read_config  # noqa: E402
from mars.reference import predict  # noqa: E402
from mars_site import onnx  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")
SOURCE = Path(__file__).parents[2] / "assets/checkpoints/mars-b8"
TEXT = [1, 282, 202, 1269, 1516, 224, 25, 1197, 408, 224, 26, 536]
CLOSE = 1e-4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported checkpoint."""
    found = tmp_path_factory.mktemp("exported")
    onnx.SHARD, usual = 3_000_000, onnx.SHARD
    assert onnx.main(["--checkpoint", str(SOURCE), "--output", str(found)]) == 0
    onnx.SHARD = usual
    return found


@pytest.fixture(scope="module")
def manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def session(folder: Path, manifest: dict[str, Any]) -> Any:
    assert {encoding for encoding, _ in manifest["weights"]} == {"bfloat16"}
    return open_session(folder, manifest)


def open_session(folder: Path, manifest: dict[str, Any]) -> Any:
    """The graph in ONNX Runtime, with its weights in float32."""
    content = bytearray(b"".join((folder / name).read_bytes() for name in manifest["shards"]))
    values, place = list[torch.Tensor](), 0

    def take(count: int, dtype: torch.dtype) -> torch.Tensor:
        nonlocal place
        place += count * dtype.itemsize
        return torch.frombuffer(content, dtype=dtype, count=count, offset=place - count * dtype.itemsize).float()

    for encoding, count in manifest["weights"]:
        if encoding == "int8":
            eight, scales = take(count, torch.int8), take(count // onnx.BLOCK, torch.bfloat16)
            values.append(eight * scales.repeat_interleave(onnx.BLOCK))
        else:
            values.append(take(count, getattr(torch, encoding)))
    weights = torch.cat(values).numpy().tobytes()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_external_initializers_from_files_in_memory(["weights"], [weights], [len(weights)])
    return onnxruntime.InferenceSession((folder / "model.onnx").read_bytes(), options)


def read(
    session: Any, manifest: dict[str, Any], ids: list[int], cache: Any = None, choice: list[int] | None = None
) -> dict[str, Any]:
    if cache is None:
        cache = np.zeros((0, *manifest["cache"]), np.float32)
    given = {onnx.CHOICE: np.array(choice, np.float32)} if choice else {}
    found = session.run(None, {"ids": np.array(ids), "cache": cache, **given})
    return dict(zip(onnx.OUTPUTS, found, strict=True))


@pytest.mark.parametrize("cached", [0, 5, len(TEXT) - 1])
@pytest.mark.parametrize("masks", [0, 7])
def test_logits_are_those_of_the_model(session: Any, manifest: dict[str, Any], cached: int, masks: int) -> None:
    mask = manifest["checkpoints"][0]["mask"]
    text = [*TEXT, *[mask] * masks]
    cache = read(session, manifest, TEXT[:cached])["entry"] if cached else None
    found = read(session, manifest, text[cached:], cache)
    plain = AutoModelForCausalLM.from_pretrained(SOURCE, dtype=torch.float32).eval()
    expected = predict(plain, text, len(text) - cached, mask)
    assert (found["logits"][:, mask] == -np.inf).all()
    real = np.isfinite(found["logits"])
    assert np.abs(found["logits"][real] - expected.numpy()[real]).max() < CLOSE
    shares = expected.softmax(-1)
    best = shares.topk(onnx.ALTERNATIVES)
    assert found["tokens"][:, 0].tolist() == best.indices[:, 0].tolist()
    assert np.abs(found["probabilities"] - best.values.numpy()).max() < CLOSE
    assert np.abs(found["entropy"] - torch.special.entr(shares).sum(-1).numpy()).max() < CLOSE


@pytest.fixture
def pair(write_adapter: Callable[..., Path], tmp_path: Path) -> list[Path]:
    """Two adapters of one base, the first without masks, and of another rank."""
    found = []
    for name, rank, stage in (("plain", 2, "sft"), ("masks", 4, "adapter")):
        found.append(write_adapter(stage=stage).rename(tmp_path / name))
        weights = load_file(found[-1] / "adapter_model.safetensors")
        cut = {key: each[:rank] if "lora_A" in key else each[:, :rank] for key, each in weights.items()}
        save_file({key: each.contiguous() * rank / 2 for key, each in cut.items()}, found[-1] / WEIGHTS_FILE)
        config = found[-1] / "adapter_config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "r": rank}))
    return found


def in_eight_bits(model: Any, changed: Collection[str]) -> None:
    """Give the model the weights of 8 bits; those of `changed` layers stand with their input features first."""
    for name, weight in model.named_parameters():
        if weight.dim() == 2:
            turned = name.split(".")[-2] in changed
            laid = weight.detach().T if turned else weight.detach()
            eight = onnx._widened(*onnx._narrowed(laid)).reshape(laid.shape)
            blocks, wrong = (each.reshape(-1, onnx.BLOCK).abs().amax(1) for each in (laid, eight - laid))
            assert bool((wrong <= blocks / 200).all())
            weight.data.copy_(eight.T if turned else eight)


def test_adapters_of_one_base_share_a_graph(pair: list[Path], llama_folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "both"
    manifest = onnx.write([*map(str, pair)], output)
    session = open_session(output, manifest)
    assert {encoding for encoding, _ in manifest["weights"]} >= {"int8"}
    text = [5, 9, 2, 31]
    for folder, about in zip(pair, manifest["checkpoints"], strict=True):
        model_type, config = read_config(llama_folder)
        model = load_model(llama_folder, model_type, config, torch.float32)
        in_eight_bits(model, load_adapter(folder).layers[0])
        merge(model, load_tokenizer(llama_folder), load_adapter(folder))
        masks = [about["mask"]] * 3 if about["mask"] >= 0 else []
        ids = [*text, *masks]
        cache = read(session, manifest, ids[:2], choice=about["choice"])["entry"]
        found = read(session, manifest, ids[2:], cache, about["choice"])["logits"]
        expected = predict(model.eval(), ids, len(ids) - 2, manifest["checkpoints"][1]["mask"]).numpy()
        real = np.isfinite(found)
        assert np.abs(found[real] - expected[:, : found.shape[1]][real]).max() < CLOSE
    assert [sum(about["choice"]) for about in manifest["checkpoints"]] == [2, 4]


def test_a_wrong_set_of_sources_is_refused(pair: list[Path], tmp_path: Path) -> None:
    for sources in ([SOURCE, SOURCE], [SOURCE, pair[0]]):
        with pytest.raises(CheckpointError, match="adapters of one base make a graph"):
            onnx.write([*map(str, sources)], tmp_path / "none")


def test_every_file_has_its_hash(folder: Path, manifest: dict[str, Any]) -> None:
    assert len(manifest["shards"]) == 3
    for name, said in manifest["files"].items():
        content = (folder / name).read_bytes()
        assert {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()} == said
        assert len(content) < 25_000_000
    assert {path.name for path in folder.iterdir()} == {*manifest["files"], "manifest.json"}


def test_a_wrong_source_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert onnx.main(["--checkpoint", str(tmp_path / "none"), "--output", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("mars_site.onnx: ")
