"""GGUF files as checkpoint folders in the user's cache directory: converted once, checked by hash ever after.

A folder is called by the hash of its file's content. It is made beside its place and renamed into it; its manifest,
written last, holds the hash of every file and the fingerprint of the weights. A folder that does not match its manifest
is converted again. One process at a time converts a file; others wait for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from filelock import FileLock, Timeout

from mars.checkpoint.errors import CheckpointError, Progress
from mars.checkpoint.gguf_file import convert
from mars.checkpoint.weights import Stamp, folder_fingerprint, stamp_of

CACHE_VARIABLE = "MARS_CACHE"
MANIFEST = "manifest.json"
_FORMAT = 1  # to be raised when `convert` writes something else: folders of another format are made again
_ONE_THREAD = threading.Lock()

_checked: dict[Path, Stamp] = {}


def cache_folder() -> Path:
    """Where converted checkpoints are kept: the environment's MARS_CACHE, else the user's cache directory."""
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named).expanduser()
    from platformdirs import user_cache_dir  # not everywhere where a folder was named

    return Path(user_cache_dir("mars-lens", appauthor=False))


def converted(file: Path, name: str, progress: Progress | None = None) -> Path:
    """The checkpoint folder of a GGUF file, converted unless that has been done; `name` is for the sentences.

    Raises:
        CheckpointError: the file is no whole Llama or Qwen2 model, or the cache cannot be written; one sentence.
    """
    tell = progress or (lambda sentence, share: None)
    tell(f"reading {name}", 0.0)
    try:
        with _ONE_THREAD:
            digest = file_hash(file)
            folder = cache_folder() / f"{file.stem}-{digest[:16]}"
            if _is_whole(folder):
                return folder
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _locked(folder, name, tell):
                if not _is_whole(folder):
                    _make(file, folder, digest, tell)
                return folder
    except OSError as error:
        raise CheckpointError(
            f"{name} cannot be converted in {cache_folder()} ({error.strerror or error}): make room there, or set "
            f"{CACHE_VARIABLE} to a folder that can be written"
        ) from error


def known_fingerprint(folder: Path) -> str:
    """The fingerprint of the weights in a folder: a converted one has it in its manifest."""
    manifest, stamp = _read(folder / MANIFEST), stamp_of(folder.iterdir())
    return str(manifest["fingerprint"]) if manifest and _checked.get(folder) == stamp else _fingerprint(folder, stamp)


def file_hash(file: Path) -> str:
    """The hexadecimal SHA-256 of a file, taken once while its size and its time of change stand."""
    stat = file.stat()
    return _hash(file, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=64)
def _hash(file: Path, size: int, changed: int) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@lru_cache(maxsize=64)
def _fingerprint(folder: Path, stamp: Stamp) -> str:
    return folder_fingerprint(folder)


def _make(file: Path, folder: Path, digest: str, tell: Progress) -> None:
    """Convert into a folder beside the place, and rename it; the lock is held."""
    for left in folder.parent.glob(f"{folder.name}.part-*"):  # of a process that was ended
        shutil.rmtree(left, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
    try:
        convert(file, part, tell)
        hashes = {made.name: file_hash(made) for made in sorted(part.iterdir())}
        manifest = {
            "format": _FORMAT,
            "source": {"file": file.name, "sha256": digest},
            "fingerprint": folder_fingerprint(part),
            "files": hashes,
        }
        with (part / MANIFEST).open("w", encoding="utf-8") as opened:
            json.dump(manifest, opened, indent=2)
            opened.flush()
            os.fsync(opened.fileno())
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    _checked[folder] = stamp_of(folder.iterdir())


def _is_whole(folder: Path) -> bool:
    """Whether the folder is what its manifest says; hashes are taken once in a process."""
    manifest = _read(folder / MANIFEST)
    if not manifest or manifest["format"] != _FORMAT:
        return False
    stamp = stamp_of(folder.iterdir())
    if _checked.get(folder) == stamp:
        return True
    files = [file for file in folder.iterdir() if file.name != MANIFEST]
    if not all(map(Path.is_file, files)) or {file.name: file_hash(file) for file in files} != manifest["files"]:
        return False
    _checked[folder] = stamp
    return True


def _read(path: Path) -> dict[str, object] | None:
    """A manifest; None where there is none, or not a whole one."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if {"format", "source", "fingerprint", "files"} <= found.keys() else None
    except (OSError, ValueError, AttributeError):
        return None


@contextmanager
def _locked(folder: Path, name: str, tell: Progress) -> Iterator[None]:
    """No other process makes the folder in this context."""
    lock = FileLock(folder.with_name(f"{folder.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        tell(f"another process converts {name}", 0.0)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
