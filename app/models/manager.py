"""The checkpoints that the page offers: loaded in the background when they are first asked for, a few at a time."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from app.models.placement import is_out_of_memory, release
from app.models.sentences import complete, without_paths
from mars.schema import shown

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint

SHIPPED = Path(__file__).parents[2] / "assets" / "checkpoints"
KEPT = 4
_log = logging.getLogger(__name__)


class ModelError(ValueError):
    """A checkpoint that cannot be used; the message is a sentence for the person."""


class Models:
    """Checkpoints by name. Loading happens in one background thread, in the order of the requests.

    At most `KEPT` stay loaded: before another one is loaded, the one that has been idle longest is let go, never one
    that is in `pinned`; a run that uses it goes on with it. Where memory is short, more go. A checkpoint that failed to
    load is tried again on request, since its folder may have been repaired. `told` gives the step of loading a source.
    """

    def __init__(
        self,
        sources: Mapping[str, str],
        load: Callable[[str], Checkpoint],
        *,
        pinned: Collection[str] = (),
        told: Callable[[str], str] = lambda source: "",
    ) -> None:
        self.sources = dict(sources)  # not for people's eyes
        self._load = load
        self._pinned = frozenset(pinned)
        self._told = told
        self._lock = threading.Lock()
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._loading: dict[str, Future[Checkpoint]] = {}  # what was used last comes last
        self._began: dict[str, float] = {}

    def state(self) -> dict[str, list[str]]:
        """The requested names by state: loaded, loading (those in the queue included), failed."""
        with self._lock:
            found: dict[str, list[str]] = {"loaded": [], "loading": [], "failed": []}
            for name in self.sources:
                future = self._loading.get(name)
                if future is not None:
                    found[_state(future)].append(name)
            return found

    def progress(self, name: str) -> str:
        """The progress of loading `name`, a sentence without its full stop."""
        began = self._began.get(name)
        if began is None:
            return f"Loading {name} …"
        if told := self._told(self.sources[name]):
            return f"Loading {name} … {told}"
        seconds = int(time.monotonic() - began) // 5 * 5
        return f"Loading {name} …" + (f" {seconds} s so far" if seconds else "")

    def wait(self, name: str, timeout_seconds: float | None = None) -> bool:
        """Wait until `name`, which is requested if it was not, is loaded or has failed; False when the time is up."""
        try:
            self.request(name).exception(timeout_seconds)
        except TimeoutError:
            return False
        return True

    def get(self, name: str) -> Checkpoint:
        """The checkpoint, once it is loaded; ModelError if it cannot be."""
        try:
            checkpoint = self.request(name).result()
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(self._sentence(name, error)) from error
        with self._lock:
            if future := self._loading.pop(name, None):
                self._loading[name] = future
        return checkpoint

    def request(self, name: str, again: bool = False) -> Future[Checkpoint]:
        """Begin to load `name` unless that has happened; `again` retries a failure. ModelError if there is none."""
        if not isinstance(name, str) or name not in self.sources:
            offered = ", ".join(self.sources)
            raise ModelError(f"There is no checkpoint {shown(name)} here; choose one of {offered}.")
        with self._lock:
            known = self._loading.get(name)
            if known is None or (again and known.done() and known.exception() is not None):
                known = self._loading[name] = self._executor.submit(self._load_and_tell, name)
            return known

    def _load_and_tell(self, name: str) -> Checkpoint:
        self._began[name] = time.monotonic()
        try:
            self._unload(len(self._loaded()) - KEPT + 1)
            return self._load_with_room(name)
        except ValueError as error:
            _log.warning("%s cannot be used. %s", name, complete(str(error)))
            raise _without_frames(error) from None
        except Exception as error:  # noqa: BLE001 - raised again, without what it holds on to
            _log.exception("loading %s failed", name)
            raise _without_frames(error) from None
        finally:
            del self._began[name]

    def _load_with_room(self, name: str) -> Checkpoint:
        """Load; while memory is short, unload one idle checkpoint more and try again."""
        while True:
            try:
                return self._load(self.sources[name])
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                _without_frames(error)
                release()
                if not self._unload(1):
                    raise

    def _unload(self, number: int) -> bool:
        """Let go of so many checkpoints, those idle longest first; returns whether any went."""
        with self._lock:
            gone = [name for name in self._loaded() if name not in self._pinned][: max(0, number)]
            for name in gone:
                del self._loading[name]
        if gone:
            release()
        return bool(gone)

    def _loaded(self) -> list[str]:
        return [name for name, future in list(self._loading.items()) if _state(future) == "loaded"]

    def _sentence(self, name: str, error: Exception) -> str:
        if is_out_of_memory(error):
            return (
                f"{name} does not fit into the memory of the device. The checkpoints loaded before are still there: "
                "choose one of them, or start the app with a smaller one."
            )
        if isinstance(error, ValueError):
            return complete(without_paths(str(error), {self.sources[name]: name}))
        kind = type(error).__name__
        return f"{name} could not be loaded ({kind}); the terminal says more. Choose another one."


def offered(*sources: str, shipped: Path = SHIPPED) -> dict[str, str]:
    """Names for these folders or Hub ids, then the shipped ones: the last part of a path, or that with a number."""
    found = [str(folder) for folder in sorted(shipped.glob("*")) if (folder / "config.json").is_file()]
    names: dict[str, str] = {}
    for source in dict.fromkeys([*sources, *found]):
        short = Path(source).name or "checkpoint"
        free = (name for number in count(2) if (name := f"{short} ({number})") not in names)
        names[next(free) if short in names else short] = source
    return names


def _without_frames(error: Exception) -> Exception:
    """The error without its traceback: the frames hold what was loaded before it."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _state(future: Future[Checkpoint]) -> str:
    if not future.done():
        return "loading"
    return "failed" if future.exception() is not None else "loaded"
