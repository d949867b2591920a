"""A run that comes into the page as events of one answer, which breaks off."""

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page

from tests.app.driving import begin, finish

pytestmark = pytest.mark.browser


class Proxy:
    """What lies between the page and the server at `upstream`: it passes everything on until it is cut."""

    def __init__(self, upstream: str) -> None:
        self._place = urlsplit(upstream)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/"
        self.sent: list[bytes] = []
        self._asked: dict[socket.socket, bytes] = {}
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, part: str) -> None:
        """Break off the connections whose last request has this in it."""
        for sock, request in list(self._asked.items()):
            if part.encode() in request:
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Take no more."""
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                browser, _ = self._listening.accept()
                server = socket.create_connection((str(self._place.hostname), self._place.port or 80))
                threading.Thread(target=self._pump, args=(browser, server, browser), daemon=True).start()
                threading.Thread(target=self._pump, args=(server, browser, None), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, asking: socket.socket | None) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if asking:
                    self.sent.append(data)
                    self._asked[asking] = data
                target.sendall(data)
        for sock in (source, target):
            self._asked.pop(sock, None)
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


@pytest.fixture
def proxy(served: Any) -> Iterator[Proxy]:
    made = Proxy(served.url)
    yield made
    made.close()


def test_a_run_survives_a_lost_connection(new_tab: Callable[[str], Page], served: Any, proxy: Proxy) -> None:
    tab = new_tab(proxy.url)
    tab.goto(proxy.url)
    tab.wait_for_selector("[data-state=idle]")
    tab.wait_for_function("document.querySelector('#prompt textarea').value.length > 0")
    tab.click(".lens-settings-button")
    begin(tab, "Readable")
    tab.wait_for_selector("[data-lane=b] .lens-pass >> nth=2")
    proxy.cut("/runs/")
    tab.wait_for_selector(".lens-status:text-is('The connection was lost. Reconnecting …')")
    finish(tab)
    for lane in served.last_run():
        tokens = sum(record.rows[0].accepted for record in lane.records)
        assert tab.locator(f"[data-lane={lane.key}] .lens-token").count() == tokens
    first, again = (sent for sent in proxy.sent if b"GET /runs/" in sent)
    assert b"last-event-id" not in first.lower()
    assert re.search(rb"last-event-id: [1-9]\d*\r\n", again.lower())
