"""guidellm, a load tester with pins of its own, asks the endpoint; from an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CHECKPOINT = Path(__file__).parents[3] / "assets" / "checkpoints" / "mars-b8"
COMMAND = os.environ.get("MARS_GUIDELLM") or shutil.which("guidellm")


@pytest.mark.slow
@pytest.mark.skipif(
    COMMAND is None,
    reason="guidellm (0.8.1) is not installed: MARS_GUIDELLM names its command",
)
def test_guidellm_measures_it(served: Any, tmp_path: Path) -> None:
    target = f"kind=openai_http,target={served.url},model=mars-b8"
    parts = {
        "--backend": target,
        "--tokenizer": f"kind=huggingface_auto,model={CHECKPOINT}",
        "--data": "kind=synthetic_text,prompt_tokens=24,output_tokens=8",
        "--profile": "kind=poisson,rate=4",
        "--constraint": "kind=max_requests,count=6",
        "--output": f"kind=json,path={tmp_path / 'found.json'}",
    }
    options = [word for pair in parts.items() for word in pair]
    done = subprocess.run(
        [str(COMMAND), "run", "--disable-progress", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [benchmark] = json.loads((tmp_path / "found.json").read_text())["benchmarks"]
    counts = benchmark["metrics"]["request_totals"]
    assert (counts["successful"], counts["errored"]) == (6, 0)
