"""The resident memory of a process, over time."""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

EVERY_SECONDS = 2.0


def resident_megabytes(pid: int) -> float:
    """The resident memory of a process, as Linux tells it."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024


@dataclass(slots=True)
class Watch:
    """Looks at a process every few seconds, from `start` to `stop`."""

    pid: int
    megabytes: list[float] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look."""
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        if self._thread:
            self._thread.join()

    def growth(self) -> tuple[float, float]:
        """The median of the second fifth, when everything has been used once, and that of the last."""
        fifth = max(1, len(self.megabytes) // 5)
        second = self.megabytes[fifth : 2 * fifth] or self.megabytes
        return statistics.median(second), statistics.median(self.megabytes[-fifth:])

    def _look(self) -> None:
        while not self._ended.is_set():
            self.megabytes.append(resident_megabytes(self.pid))
            time.sleep(EVERY_SECONDS)
