"""`python -m mars.export`: the graph in ONNX Runtime against the model in transformers, and its files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from mars import export  # noqa: E402
from mars.reference import predict  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")
SOURCE = Path(__file__).parents[2] / "assets/checkpoints/mars-b8"
TEXT = [1, 282, 202, 1269, 1516, 224, 25, 1197, 408, 224, 26, 536]
CLOSE = 1e-4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported checkpoint."""
    found = tmp_path_factory.mktemp("exported")
    export.SHARD, usual = 3_000_000, export.SHARD
    assert export.main(["--checkpoint", str(SOURCE), "--output", str(found)]) == 0
    export.SHARD = usual
    return found


@pytest.fixture(scope="module")
def manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def session(folder: Path, manifest: dict[str, Any]) -> Any:
    narrow = b"".join((folder / name).read_bytes() for name in manifest["shards"])
    assert manifest["narrow"]
    weights = torch.frombuffer(bytearray(narrow), dtype=torch.bfloat16).float().numpy().tobytes()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_external_initializers_from_files_in_memory(["weights"], [weights], [len(weights)])
    return onnxruntime.InferenceSession((folder / "model.onnx").read_bytes(), options)


def read(session: Any, manifest: dict[str, Any], ids: list[int], cache: Any = None) -> dict[str, Any]:
    if cache is None:
        cache = np.zeros((0, *manifest["cache"]), np.float32)
    found = session.run(None, {"ids": np.array(ids), "cache": cache})
    return dict(zip(export.OUTPUTS, found, strict=True))


@pytest.mark.parametrize("cached", [0, 5, len(TEXT) - 1])
@pytest.mark.parametrize("masks", [0, 7])
def test_logits_are_those_of_the_model(session: Any, manifest: dict[str, Any], cached: int, masks: int) -> None:
    mask, text = manifest["mask"], [*TEXT, *[manifest["mask"]] * masks]
    cache = read(session, manifest, TEXT[:cached])["entry"] if cached else None
    found = read(session, manifest, text[cached:], cache)
    plain = AutoModelForCausalLM.from_pretrained(SOURCE, dtype=torch.float32).eval()
    expected = predict(plain, text, len(text) - cached, mask)
    assert (found["logits"][:, mask] == -np.inf).all()
    real = np.isfinite(found["logits"])
    assert np.abs(found["logits"][real] - expected.numpy()[real]).max() < CLOSE
    shares = expected.softmax(-1)
    best = shares.topk(export.ALTERNATIVES)
    assert found["tokens"][:, 0].tolist() == best.indices[:, 0].tolist()
    assert np.abs(found["probabilities"] - best.values.numpy()).max() < CLOSE
    assert np.abs(found["entropy"] - torch.special.entr(shares).sum(-1).numpy()).max() < CLOSE


def test_every_file_has_its_hash(folder: Path, manifest: dict[str, Any]) -> None:
    assert len(manifest["shards"]) == 3
    for name, said in manifest["files"].items():
        content = (folder / name).read_bytes()
        assert {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()} == said
        assert len(content) < 25_000_000
    assert {path.name for path in folder.iterdir()} == {*manifest["files"], "manifest.json"}


def test_a_wrong_source_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export.main(["--checkpoint", str(tmp_path / "none"), "--output", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("mars.export: ")
