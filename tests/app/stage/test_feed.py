"""A live run whose lines the page fetches: they are drawn like those of the value, and each once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from app.compare import stream
from app.server.pictures import AGAIN

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = pytest.mark.browser

Message = dict[str, Any]
WHILE_MILLISECONDS = 400  # in which a page that did not stop would ask again and again
SOON = {AGAIN: "20"}
ENDINGS = {
    "over": lambda route: route.fulfill(status=204),
    "unknown": lambda route: route.fulfill(status=404),
    "broken": lambda route: route.fulfill(status=500),
    "unreachable": lambda route: route.abort(),
    "foreign": lambda route: route.fulfill(body="<html>\n<p>Sign in</p>\n", content_type="text/html"),
    "never again": lambda route: route.fulfill(body="{}\n", headers={AGAIN: "0"}),
    "no number": lambda route: route.fulfill(body="{}\n", headers={AGAIN: "soon"}),
}
FAILING = ("unknown", "broken", "unreachable")


class Server:
    """Answers in the place of `app.server.pictures`: the lines of a run that the page lacks, or that the run is over.

    `act` does it; a test may let something else act, or hold what is asked and answer later.
    """

    def __init__(self, tab: Page, play: Any) -> None:
        self.tab = tab
        self.play = play
        self.lines: dict[str, list[str]] = {}
        self.asked: list[tuple[str, int]] = []
        self.paths: list[str] = []
        self.headers = SOON
        self.act: Callable[[Route], None] = self.answer
        tab.context.route("**/pictures/*", self.meet)

    def meet(self, route: Route) -> None:
        self.paths.append(urlsplit(route.request.url).path)
        self.asked.append(self.wish(route))
        self.act(route)

    def wish(self, route: Route) -> tuple[str, int]:
        address = urlsplit(route.request.url)
        return address.path.rpartition("/")[2], int(parse_qs(address.query)["after"][0])

    def answer(self, route: Route) -> None:
        identity, after = self.wish(route)
        if identity not in self.lines:
            route.fulfill(status=204)
            return
        text = "".join(self.lines[identity][after:])
        route.fulfill(body=text, content_type="text/plain; charset=utf-8", headers=self.headers)

    def start(self, identity: str = "run", *, live: bool = True) -> None:
        """A run with one lane; the value has no more than its first two lines."""
        lanes = [self.play.lane("b", "masks")]
        self.lines[identity] = [stream.line(stream.opening(identity, lanes, live=live))]
        self.write(stream.state("running", "They write."), identity=identity)
        self.play.start(self.tab, *lanes, identity=identity, live=live)

    def write(self, *messages: Message, identity: str = "run") -> None:
        self.lines[identity] += map(stream.line, messages)

    def words(self, *numbers: int) -> list[Message]:
        return [self.play.passed("b", number, [self.play.token(f" {number}")]) for number in numbers]

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait, while requests come and go."""
        latest = time.monotonic() + 30
        while not holds():
            assert time.monotonic() < latest, self.asked
            self.tab.wait_for_timeout(10)

    def until_drawn(self, text: str) -> None:
        self.tab.wait_for_function("text => document.querySelector('.lens-text')?.textContent === text", arg=text)

    def until_said(self, sentence: str) -> None:
        self.tab.wait_for_function("text => document.querySelector('.lens-status').textContent === text", arg=sentence)

    def asked_no_more(self) -> bool:
        """Whether nothing is asked for a while."""
        before = len(self.asked)
        self.tab.wait_for_timeout(WHILE_MILLISECONDS)
        return len(self.asked) == before

    @property
    def text(self) -> str | None:
        return self.tab.text_content(".lens-text")


@pytest.fixture
def server(mount: Callable[..., Page], play: Any) -> Server:
    return Server(mount(), play)


def test_the_lines_of_a_live_run_are_fetched_and_drawn(server: Server) -> None:
    server.start()
    server.write(*server.words(1, 2))
    server.until_drawn(" 1 2")
    server.write(*server.words(3))
    server.until_drawn(" 1 2 3")
    assert server.tab.locator(".lens-pass").last.inner_text() == " 3"
    assert server.tab.locator("[data-counter=passes]").all_inner_texts() == ["3"]
    server.write(stream.lane_end("b", "stop", ""), stream.state("done", "Done."))
    server.until_said("Done.")
    server.until(lambda: server.asked[-1] == ("run", 7))  # so that the server knows that nothing is missing
    assert server.asked_no_more()
    known = [after for _, after in server.asked]
    assert known == sorted(known)
    assert set(known) - {2} == {1, 4, 5, 7}


def test_a_run_that_is_not_live_is_not_asked_for(server: Server) -> None:
    server.start(live=False)
    server.write(*server.words(1))
    assert server.asked_no_more()
    assert server.asked == []
    assert server.text == ""


@pytest.mark.parametrize("root", ["http://stage.test/below", "http://stage.test/below/"])
def test_a_page_below_a_path_asks_there(server: Server, root: str) -> None:
    server.tab.evaluate("root => { window.gradio_config = { root }; }", root)
    server.start()
    server.write(stream.state("done", "Done."))
    server.until_said("Done.")
    assert set(server.paths) == {"/below/pictures/run"}


def test_the_same_run_opened_again_is_asked_for_by_one_only(server: Server) -> None:
    held: list[Route] = []
    server.act = held.append
    server.start()
    server.until(lambda: len(held) == 1)
    again = stream.opening("run", [server.play.lane("b", "masks", texts={"note": "Another."})], live=True)
    server.write(again)
    server.play.feed(server.tab, again)
    assert server.asked_no_more()
    assert server.asked == [("run", 1)]
    server.act = server.answer
    server.answer(held[0])
    server.write(*server.words(1), stream.state("done", "Done."))
    server.until_said("Done.")
    assert server.text == " 1"


def test_lines_that_are_fetched_before_the_value_brings_them_are_drawn_once(server: Server) -> None:
    server.start()
    server.write(*server.words(1, 2, 3))
    server.until_drawn(" 1 2 3")
    server.play.feed(server.tab, *server.words(1, 2))
    assert server.text == " 1 2 3"
    server.play.feed(server.tab, *server.words(3, 4))
    assert server.text == " 1 2 3 4"
    server.write(*server.words(4, 5), stream.state("done", "Done."))
    server.until_said("Done.")
    assert server.text == " 1 2 3 4 5"


def test_lines_that_the_value_brings_before_an_answer_are_drawn_once(server: Server) -> None:
    held: list[Route] = []
    server.act = held.append
    server.start()
    server.until(lambda: len(held) == 1)
    server.play.feed(server.tab, *server.words(1, 2))
    assert server.text == " 1 2"
    server.write(*server.words(1, 2, 3))
    server.act = server.answer
    server.answer(held[0])
    server.until_drawn(" 1 2 3")
    server.write(stream.state("done", "Done."))
    server.until_said("Done.")
    assert server.text == " 1 2 3"
    assert server.asked[0] == ("run", 1)


@pytest.mark.parametrize("state", ["done", "stopped", "failed"])
@pytest.mark.parametrize("way", ["fetched", "value"])
def test_a_run_that_has_ended_is_asked_for_no_more(server: Server, state: Any, way: str) -> None:
    server.start()
    server.until(lambda: len(server.asked) >= 3)
    ended = stream.state(state, "It ended.")
    if way == "fetched":
        server.write(ended)
    else:
        server.play.feed(server.tab, ended)
    server.until_said("It ended.")
    server.tab.wait_for_timeout(WHILE_MILLISECONDS / 4)  # what was asked already
    server.write(*server.words(1))
    assert server.asked_no_more()
    assert server.text == ""


@pytest.mark.parametrize("ending", ENDINGS)
def test_where_fetching_ends_the_value_goes_on(server: Server, complaints: list[str], ending: str) -> None:
    server.start()
    server.write(*server.words(1, 2))
    server.until_drawn(" 1 2")
    before = len(server.asked)
    server.act = ENDINGS[ending]
    server.until(lambda: len(server.asked) > before)
    assert server.asked_no_more()
    server.play.feed(server.tab, *server.words(1, 2, 3))
    assert server.text == " 1 2 3"
    server.play.feed(server.tab, *server.words(4), stream.state("done", "Done."))
    assert server.text == " 1 2 3 4"
    assert server.asked_no_more()
    assert len(server.asked) == before + 1
    assert ["Failed to load resource" in each for each in complaints] == [True] * (ending in FAILING)
    complaints.clear()


def test_a_run_after_one_that_could_not_be_fetched_is_asked_for(server: Server) -> None:
    server.act = ENDINGS["over"]
    server.start()
    server.until(lambda: len(server.asked) == 1)
    assert server.asked_no_more()
    server.act = server.answer
    server.start("next")
    server.write(*server.words(1), stream.state("done", "Done."), identity="next")
    server.until_said("Done.")
    assert server.text == " 1"


@pytest.mark.parametrize("live", [True, False], ids=["live", "not-live"])
def test_an_answer_for_an_earlier_run_is_not_drawn(server: Server, live: bool) -> None:
    held: list[Route] = []
    server.act = held.append
    server.start()
    server.until(lambda: len(held) == 1)
    server.start("next", live=live)
    server.until(lambda: len(held) == 1 + live)
    server.write(*server.words(7, 8, 9))
    server.act = server.answer
    server.answer(held[0])
    server.tab.wait_for_timeout(WHILE_MILLISECONDS)
    assert server.text == ""
    assert server.asked == [("run", 1), ("next", 1)][: 1 + live]
    end = *server.words(1), stream.state("done", "Done.")
    if live:
        server.write(*end, identity="next")
        server.answer(held[1])
    else:
        server.play.feed(server.tab, *end)
    server.until_said("Done.")
    assert server.text == " 1"
    assert {identity for identity, _ in server.asked[1:]} <= {"next"}


def test_the_server_says_when_to_ask_again(server: Server) -> None:
    server.headers = {AGAIN: "60000"}
    server.start()
    server.until(lambda: len(server.asked) == 1)
    assert server.asked_no_more()
