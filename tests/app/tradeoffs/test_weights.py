import hashlib
from pathlib import Path

from app.tradeoffs.card import fingerprint, named

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "assets" / "checkpoints" / "mars-b8"


def model(name: str, digest: str) -> dict[str, str]:
    return {"name": name, "fingerprint": digest}


def test_weights_are_known_by_their_bytes(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    first = fingerprint(str(tmp_path))
    assert first == hashlib.sha256(b"weights").hexdigest()[:16]
    sources = {"one": str(tmp_path), "shipped": str(SHIPPED)}
    assert named(model("anything", str(first)), sources) == "one"
    assert named(model("mars-b8", str(fingerprint(str(SHIPPED)))), sources) == "shipped"


def test_one_name_does_not_make_weights_equal(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    assert named(model("mars", "0" * 16), {"mars": str(tmp_path)}) is None


def test_absent_weights_are_known_by_name() -> None:
    assert named(model("Some/Model-7B", "0" * 16), {"big": "Some/Model-7B", "other": "Some/Other"}) == "big"
    assert named(None, {"big": "Some/Model-7B"}) is None
