"""The origin of a result: command, commit, hardware, versions, date."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import transformers


def provenance(command: str, device: str = "cpu") -> dict[str, Any]:
    """Everything needed to run the same command again; `device` is where it ran, as torch writes it."""
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
    """The name of this CUDA device, or of the processor with its number of cores and its units for bfloat16."""
    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(device))
    processor = _cpu_information().get("model name") or platform.processor() or platform.machine()
    return f"{processor}, {os.cpu_count()} cores, {bfloat16_units(_cpu_information())}"


def commit() -> str | None:
    """The commit of the source tree, with "+changes" when files differ from it.

    Outside a repository, where the files alone were copied, it is what MARS_COMMIT says, or None.
    """
    named = os.environ.get("MARS_COMMIT")
    git = shutil.which("git")
    if git is None:
        return named
    described = [git, "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+changes"]
    root = Path(__file__).resolve().parent
    try:
        return subprocess.run(described, cwd=root, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return named


def bfloat16_units(information: Mapping[str, str]) -> str:
    """The units for bfloat16 of this processor, by /proc/cpuinfo, and their limit: speeds differ by several times."""
    flags = information.get("flags", "").split()
    lesser = "AVX512-BF16" if "avx512_bf16" in flags else "neither AMX nor AVX512-BF16"
    units, limit = "AMX" if "amx_bf16" in flags else lesser, instruction_limit()
    return units if limit is None else f"{units}, limited to {limit}"


def instruction_limit() -> str | None:
    """The instructions that oneDNN may use at most (ONEDNN_MAX_CPU_ISA, formerly DNNL_MAX_CPU_ISA); None for all."""
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA") or "ALL"
    return None if limit.upper() in ("ALL", "DEFAULT") else limit.upper()


def _cpu_information() -> dict[str, str]:
    """The first core in /proc/cpuinfo; empty on systems other than Linux."""
    file = Path("/proc/cpuinfo")
    if not file.is_file():
        return {}
    first = file.read_text().partition("\n\n")[0].splitlines()
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first)}
