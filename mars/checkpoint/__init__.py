"""Checkpoints: from a source to an engine and a tokenizer.

`sources` finds the folder, `converted` makes one of a GGUF file, `weights` and `adapter` read the files,
`checkpoint` puts an engine on top, also as a command's options say. Torch is not read before `Checkpoint` or
`load_checkpoint` is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mars.checkpoint.errors import CheckpointError

if TYPE_CHECKING:
    from mars.checkpoint.checkpoint import Checkpoint, load_checkpoint
else:

    def __getattr__(name: str) -> Any:
        if name not in ("Checkpoint", "load_checkpoint"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from mars.checkpoint import checkpoint

        return getattr(checkpoint, name)


__all__ = ["Checkpoint", "CheckpointError", "load_checkpoint"]
