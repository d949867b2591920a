"""Where a result came from: command, commit, hardware, versions, date."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import transformers


def provenance(command: str, device: str = "cpu") -> dict[str, Any]:
    """What another person needs to run the same thing again; `device` is where it ran, as torch writes it."""
    return {
        "command": command,
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "hardware": hardware(device),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }


def hardware(device: str = "cpu") -> str:
    """The name of this CUDA device, or of the processor with its number of cores."""
    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(device))
    return f"{_processor()}, {os.cpu_count()} cores"


def commit() -> str | None:
    """The commit of the source tree, with "+changes" when files differ from it; None outside a repository."""
    root = Path(__file__).resolve().parent
    git = shutil.which("git")
    if git is None:
        return None
    try:
        head = subprocess.run([git, "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True)
        changed = subprocess.run(
            [git, "status", "--porcelain", "--untracked-files=no"],
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return head.stdout.strip() + ("+changes" if changed.stdout.strip() else "")


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
