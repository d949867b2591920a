"""The error of loading a checkpoint, and the type of its progress reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, float], None]
"""Called while a checkpoint is loaded, with a short sentence and the share that is done, 0 to 1."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message is one sentence that names the file and the fix."""


@contextmanager
def failing(what: str, fix: str, *kinds: type[Exception]) -> Iterator[None]:
    """Raise CheckpointError for errors of these kinds: what fails, the first line of the error, shortened, the fix."""
    try:
        yield
    except kinds as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        reason = line if len(line) <= 160 else line[:159] + "…"
        raise CheckpointError(f"{what} ({reason}): {fix}") from error
