"""`python -m tests.performance.endless`: the app, with models that know no end, so that every lane fills its limit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.models.placement import Loader
from app.server import options, serving

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint


class Endless(Loader):
    """Loads checkpoints to which no token ends a turn."""

    def __call__(self, source: str) -> Checkpoint:
        """The checkpoint of this folder or Hub id, without stop tokens."""
        checkpoint = super().__call__(source)
        checkpoint.engine.stop_token_ids = frozenset()
        return checkpoint


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until interrupted; the exit status."""
    chosen = options.read(arguments)
    serving.prepare()
    serving.host(chosen, Endless(chosen.device, chosen.threads))
    return 0


if __name__ == "__main__":
    sys.exit(main())
