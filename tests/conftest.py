"""What tests share: a tiny checkpoint with random weights, decoders beside those of the table, Node and a browser."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import settings

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from playwright.sync_api import Browser
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from mars.checkpoint import Checkpoint

# No test asks the Hub, where there is a network either. It is read at import, and by the programs that tests start.
os.environ["HF_HUB_OFFLINE"] = "1"

# Without a GPU Triton's kernels run in its interpreter, which must be known when `transformers` imports it.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

# The same examples in every run; to look for others: `--hypothesis-profile=default --hypothesis-seed=N`.
settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile("same")

TINY_TEXT = [
    "user\nTom has 3 apples and buys 4 more. How many has he?\nassistant\n3 + 4 = 7\n#### 7\n",
    "user\nWrite a function that adds two numbers.\nassistant\ndef add(a, b):\n    return a + b\n",
]


@pytest.fixture
def joint_window(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The decoder of docs/extending.md, in the table as the page says, for one test."""
    from mars import decoders
    from tests import extending

    monkeypatch.setattr(decoders, "TABLE", dict(decoders.TABLE))
    monkeypatch.setitem(sys.modules, extending.PLACE, ModuleType(extending.PLACE))
    return extending.add()


@pytest.fixture(scope="session")
def one_thread() -> Iterator[None]:
    """Tiny models are fastest on one thread: two that share a busy core wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """Our kind of tokenizer, trained on two sentences."""
    from mars.training.start import train_tokenizer

    return train_tokenizer(TINY_TEXT * 4, 320, 384)


@pytest.fixture(scope="session")
def tiny_sizes(tiny_tokenizer: PreTrainedTokenizerFast, one_thread: None) -> dict[str, Any]:
    """The configuration of a model for the tiny tokenizer: two layers, grouped heads and a varied output."""
    return {
        "vocab_size": len(tiny_tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 384,
        "initializer_range": 0.4,
        "bos_token_id": None,
        "eos_token_id": tiny_tokenizer.eos_token_id,
        "pad_token_id": tiny_tokenizer.pad_token_id,
    }


@pytest.fixture(scope="session")
def tiny_model(tiny_sizes: dict[str, Any]) -> PreTrainedModel:
    """A Qwen2 with random weights, float32."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    return Qwen2ForCausalLM(Qwen2Config(**tiny_sizes)).eval()


@pytest.fixture(scope="session")
def tiny_folder(
    tmp_path_factory: pytest.TempPathFactory, tiny_model: PreTrainedModel, tiny_tokenizer: PreTrainedTokenizerFast
) -> Path:
    """A checkpoint folder as stage mars writes it, B = 4. Read only: copy it before you break it."""
    folder = tmp_path_factory.mktemp("checkpoints") / "tiny-mars"
    tiny_model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    (folder / "mars.json").write_text(json.dumps({"stage": "mars", "block_size": 4, "sft_loss": True}))
    return folder


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> Checkpoint:
    """The tiny checkpoint, loaded on the CPU."""
    from mars.checkpoint import load_checkpoint

    return load_checkpoint(tiny_folder, dtype="float32", device="cpu")


@pytest.fixture(scope="session")
def node() -> str:
    """Node 20 or newer, which runs the page's modules without a browser; in CI it may not be missing."""
    path = shutil.which("node")
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout if path else "v0"
    if path is None or int(version.strip("v").split(".")[0]) < 20:
        missing = "no Node 20 on this machine: install nodejs"
        (pytest.fail if os.environ.get("CI", "").lower() in ("true", "1") else pytest.skip)(missing)
    return path


@pytest.fixture(scope="session")
def _kept_chromium() -> Iterator[tuple[Browser, AbstractEventLoop]]:
    """The browser that `chromium` hands on, started once; and Playwright's event loop, set aside meanwhile."""
    from tests.performance.served import browser

    try:
        path = shutil.which("chromium-headless-shell") or browser()
    except SystemExit as error:
        pytest.skip(str(error))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        here = "--host-resolver-rules=MAP lens.example.org 127.0.0.1"  # behind a proxy the page has this name
        launched = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", here])
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield launched, loop
        asyncio._set_running_loop(loop)
        launched.close()


@pytest.fixture(scope="module")
def chromium(_kept_chromium: tuple[Browser, AbstractEventLoop]) -> Iterator[Browser]:
    """Debian's Chromium, headless: the build without windows where it is installed, for it takes a third less time.

    Playwright's loop stays the running one of this thread once it has started. It is so only for files that ask for the
    browser: others run loops of their own.
    """
    launched, loop = _kept_chromium
    asyncio._set_running_loop(loop)
    yield launched
    asyncio._set_running_loop(None)
