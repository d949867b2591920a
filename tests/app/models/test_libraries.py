import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from app.models import placement
from app.models.placement import Loader

ROOT = Path(__file__).parents[3]


class AskedError(Exception):
    pass


def test_early_comers_ask_for_the_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> None:
        raise AskedError

    monkeypatch.setattr(placement, "read_libraries", read)
    with pytest.raises(AskedError):
        Loader("cpu")("any")


def test_they_are_whole_and_no_garbage() -> None:
    """In a process that read them, and asked for them again."""
    code = """
import gc, json, sys
from app.models import placement
placement.read_libraries()
told = {"kept": gc.get_freeze_count()}
mine = [[]]
placement.read_libraries()
told |= {"kept again": gc.get_freeze_count(), "collects": gc.isenabled()}
before = set(sys.modules)
import torch, transformers
from mars.checkpoint import load_checkpoint
from mars.decoding import DECODERS, METHODS
from mars.checkpoint.checkpoint import paired
from mars.provenance import commit
from mars.decoding.service import service_of
print(json.dumps({**told, "late": sorted(set(sys.modules) - before)}))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=False, timeout=120, capture_output=True, text=True
    )
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert told["collects"]
    assert told["kept"] > 100_000
    assert told["kept again"] <= told["kept"], "what came later is frozen too"
    assert told["late"] == [], "no later import reads more"


def test_nobody_gets_them_before_they_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one thread reads, others wait."""
    held = threading.Lock()
    monkeypatch.setattr(placement, "_one_at_a_time", held)
    held.acquire()
    other = threading.Thread(target=placement.read_libraries)
    other.start()
    other.join(0.2)
    assert other.is_alive()
    held.release()
    other.join(60)
    assert not other.is_alive()
