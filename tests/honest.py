"""Those beside a hostile client: how long they wait, and what it does to the memory of the server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import httpx
import psutil


class Honest:
    """Somebody who reads an address again and again, and notes how long the slowest answer took."""

    def __init__(self, url: str) -> None:
        self.slowest, self._ended = 0.0, False
        self._url, self._http = url, httpx.Client(timeout=60, trust_env=False)
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Honest:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._thread.join()
        self._http.close()

    def _ask(self) -> None:
        while not self._ended:
            began = time.monotonic()
            self._http.get(self._url).raise_for_status()
            self.slowest = max(self.slowest, time.monotonic() - began)
            time.sleep(0.02)


def delays_nobody(url: str, act: Callable[[], object]) -> None:
    """Fail if `act` makes others wait for half a second, or makes the server grow by more than 32 MB.

    The machine may be busy with other things: what an answer takes without `act`, five times, is taken off. Of up to
    three rounds the best counts.
    """
    delays, sizes = list[float](), list[int]()
    while len(sizes) < 2 or (min(delays) > 0.5 and len(sizes) < 3):
        with Honest(url) as undisturbed:
            time.sleep(0.5)
        with Honest(url) as beside:
            act()
        delays.append(beside.slowest - 5 * undisturbed.slowest)
        sizes.append(resident(url))
    assert min(delays) <= 0.5, delays
    assert sizes[-1] - sizes[0] < 32 * 2**20, sizes


def resident(url: str) -> int:
    """The bytes of memory of the process that listens at this address."""
    port = httpx.URL(url).port
    [process] = {one.pid for one in psutil.net_connections("tcp") if one.status == "LISTEN" and one.laddr.port == port}
    return int(psutil.Process(process).memory_info().rss)
