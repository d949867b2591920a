"""The error of loading a checkpoint, and the type of its progress reports."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, float], None]
"""Called while a checkpoint is loaded, with a short sentence and the share that is done, 0 to 1."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message is one sentence that names the file and the fix."""
