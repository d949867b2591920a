"""The checkpoints that the page offers: loaded one after the other in the background, each at most once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint

SHIPPED = Path(__file__).parents[1] / "assets" / "checkpoints"
_log = logging.getLogger(__name__)


class ModelError(ValueError):
    """A checkpoint that cannot be used; the message is a sentence for the person."""


class Models:
    """Checkpoints by name. Loading happens in one background thread, in the order of the requests.

    A checkpoint that failed to load is tried again when it is asked for again: its folder may have been repaired.
    """

    def __init__(self, sources: Mapping[str, str], load: Callable[[str], Checkpoint]) -> None:
        self._sources = dict(sources)
        self._load = load
        self._lock = threading.Lock()
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._loading: dict[str, Future[Checkpoint]] = {}

    @property
    def names(self) -> list[str]:
        """What can be chosen."""
        return list(self._sources)

    def request(self, name: str, again: bool = False) -> None:
        """Begin to load `name` unless that has happened; `again` retries one that failed.

        Raises:
            ModelError: nothing of that name is offered.
        """
        if name not in self._sources:
            raise ModelError(f"There is no checkpoint “{name}” here; choose one of {', '.join(self._sources)}.")
        with self._lock:
            known = self._loading.get(name)
            if known is None or (again and known.done() and known.exception() is not None):
                self._loading[name] = self._executor.submit(self._load_and_tell, name)

    def wait(self, name: str, timeout_seconds: float | None = None) -> bool:
        """Wait until `name`, which was requested, is loaded or has failed; False when the time is up."""
        try:
            self._loading[name].exception(timeout_seconds)
        except TimeoutError:
            return False
        return True

    def get(self, name: str) -> Checkpoint:
        """The checkpoint; waits until it is loaded.

        Raises:
            ModelError: it cannot be loaded, with the reason and what to do.
        """
        self.request(name)
        try:
            return self._loading[name].result()
        except ValueError as error:
            raise ModelError(_sentence(str(error))) from error
        except Exception as error:
            raise ModelError(
                f"{name} could not be loaded ({type(error).__name__}); the terminal says more. Choose another one."
            ) from error

    def _load_and_tell(self, name: str) -> Checkpoint:
        try:
            return self._load(self._sources[name])
        except ValueError as error:
            _log.warning("%s cannot be used. %s", name, _sentence(str(error)))
            raise
        except Exception:
            _log.exception("loading %s failed", name)
            raise


def offered(*sources: str, shipped: Path = SHIPPED) -> dict[str, str]:
    """Names for the given folders or Hub ids, in order, then the shipped checkpoints that are not among them."""
    found = [str(folder) for folder in sorted(shipped.glob("*")) if (folder / "config.json").is_file()]
    names: dict[str, str] = {}
    for source in [*sources, *found]:
        if source in names.values():
            continue
        short = Path(source).name or source
        names[source if short in names else short] = source
    return names


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else text + "."
