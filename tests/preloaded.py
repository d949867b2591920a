"""What pages and pytest-xdist's processes need, imported: see `forks.py`. No test modules: pytest rewrites those."""

import os
from contextlib import suppress
from importlib import import_module

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"

import app.page
import app.server.openai  # noqa: F401
from app.models.placement import read_libraries
from tests.app import scripted_pair  # noqa: F401

read_libraries()
for name in ("numba", "peft", "openai", "playwright.sync_api", "statsmodels.api", "lm_eval.models.huggingface"):
    with suppress(ImportError):  # not all of them are there without requirements-eval.txt
        import_module(name)
