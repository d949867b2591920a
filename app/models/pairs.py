"""The pairs of checkpoints that Compare can start with: a real language model, and the tiny pair trained here."""

from dataclasses import dataclass
from pathlib import Path

from app.models.manager import SHIPPED
from app.scheduling import PACES
from mars.checkpoint.sources import unavailable
from mars.config import DEFAULT_NEW_TOKENS

REAL_SOURCES = {
    "ar": str(SHIPPED.parent / "adapters" / "smollm2-135m-sft"),
    "mars": str(SHIPPED.parent / "adapters" / "smollm2-135m-mars"),
}
TINY_SOURCES = {"ar": str(SHIPPED / "ar-sft"), "mars": str(SHIPPED / "mars-b8")}
"""The checkpoint of each lane, as a source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """`ar` and `mars` are names of checkpoints; by default a person named them. `key` is used in addresses.

    With `tasks` its examples are problems of the six families, whose known answers can be scored; without, they are
    questions. `max_new_tokens` and `pace`, in passes per second, are the defaults for models of this size.
    """

    key: str = "given"
    title: str = "As given"
    ar: str
    mars: str
    tasks: bool = True
    max_new_tokens: int = DEFAULT_NEW_TOKENS
    pace: float = PACES["Readable"]


def real(ar: str, mars: str) -> Pair:
    """SmolLM2 after SFT, and after MARS, under these names: they answer any question, and know the six families."""
    title = "SmolLM2 135M: any question"
    return Pair(key="smollm2", title=title, ar=ar, mars=mars, tasks=False, max_new_tokens=256)


def tiny(ar: str, mars: str) -> Pair:
    """The tiny pair under these names: it knows the six families alone, and everything it writes can be scored."""
    return Pair(key="tiny", title="Tiny pair: six kinds of problem, with known answers", ar=ar, mars=mars)


def real_missing() -> str | None:
    """One sentence, without its full stop, why the real pair cannot be had here; None if it can."""
    for adapter in map(Path, REAL_SOURCES.values()):
        if not (adapter / "adapter_config.json").is_file():
            return f"the adapter {adapter.name} is not in assets/adapters: train it with python -m mars.training"
        if missing := unavailable(str(adapter)):
            return missing
    return None
