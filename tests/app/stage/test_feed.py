"""A live run that the page follows: every line is drawn once, over connections that break off as well."""

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Route

from app.compare import stream
from app.server.routes import event

pytestmark = pytest.mark.browser

Message = dict[str, Any]
WHILE_MILLISECONDS = 400  # in which a page that did not stop would connect again and again
RECONNECTING, LOST = "The connection was lost. Reconnecting …", "The server no longer has this run."
REFUSALS = {
    "over": lambda route: route.fulfill(status=204),
    "unknown": lambda route: route.fulfill(status=404),
    "broken": lambda route: route.fulfill(status=500),
    "foreign": lambda route: route.fulfill(body="<html>\n<p>Sign in</p>\n", content_type="text/html"),
}
ENDED = "ended.map(([name, run]) => [name, run])"


class Server:
    """Answers in the place of `app.server.routes`, with a connection that breaks off after each answer.

    `act` does it; a test may let something else act, or hold what is asked and answer later.
    """

    def __init__(self, tab: Page, play: Any) -> None:
        self.tab = tab
        self.play = play
        self.lines: dict[str, list[str]] = {}
        self.asked: list[tuple[str, int]] = []
        self.act: Callable[[Route], None] = self.answer
        tab.context.route("**/events", self.meet)

    def meet(self, route: Route) -> None:
        self.asked.append(self.wish(route))
        self.act(route)

    def wish(self, route: Route) -> tuple[str, int]:
        headers = route.request.headers
        return urlsplit(route.request.url).path.split("/")[-2], int(headers.get("last-event-id", 0))

    def answer(self, route: Route) -> None:
        identity, after = self.wish(route)
        lines = self.lines[identity]
        text = event(len(lines), "".join(lines[after:])) if lines[after:] else ":\n\n"
        route.fulfill(body=f"retry: 20\n\n{text}", content_type="text/event-stream")

    def start(self, identity: str = "run") -> None:
        """A run with one lane, which the stage is told to follow."""
        self.lines[identity] = []
        opening = stream.Opening(kind="open", id=identity, lanes=[self.play.lane("b", "masks")])
        self.write(opening, stream.state("running", "They write."), identity=identity)
        self.play.feed(self.tab, stream.Follow(kind="follow", id=identity))

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
        says = "text => document.querySelector('.lens-status').textContent.startsWith(text)"
        self.tab.wait_for_function(says, arg=sentence)

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


def test_lines_are_drawn_once_over_broken_connections(server: Server) -> None:
    server.start()
    server.write(*server.words(1, 2))
    server.until_drawn(" 1 2")
    server.write(*server.words(3))
    server.until_drawn(" 1 2 3")
    assert server.tab.locator(".lens-pass").last.inner_text() == " 3"
    assert server.tab.locator("[data-counter=tokens]").all_inner_texts() == ["3"]
    server.write(stream.End(kind="end", lane="b", reason="stop", tail=""), stream.state("done", "Done."))
    server.until_said("Done.")
    assert server.asked_no_more()
    assert server.text == " 1 2 3"
    known = [after for _, after in server.asked]
    assert known == sorted(known)
    assert set(known) <= {0, 2, 4, 5}


def test_one_run_is_drawn_and_ended_once(server: Server) -> None:
    server.play.start(server.tab, server.play.lane("b", "masks"))
    assert server.asked_no_more()
    assert server.asked == [], "lanes that are introduced follow nothing"
    server.start()
    server.write(*server.words(1))
    server.until_drawn(" 1")
    server.play.start(server.tab, server.play.lane("a", "ar"), identity="introduced")
    server.write(*server.words(2), stream.state("done", "Done."))
    server.until_said("Done.")
    assert server.text == " 1 2"
    server.play.feed(server.tab, stream.state("failed", "Something else."))
    assert server.tab.evaluate(ENDED) == [["submit", "run"]]


def test_one_run_has_one_connection(server: Server) -> None:
    held: list[Route] = []
    server.act = held.append
    server.start()
    server.until(lambda: len(held) == 1)
    again = stream.Opening(kind="open", id="run", lanes=[server.play.lane("b", "masks", texts={"note": "Another."})])
    server.write(again)
    server.play.feed(server.tab, stream.Follow(kind="follow", id="run"))
    assert server.asked_no_more()
    assert server.asked == [("run", 0)]
    server.act = server.answer
    server.answer(held[0])
    server.write(*server.words(1), stream.state("done", "Done."))
    server.until_said("Done.")
    assert server.text == " 1"


def test_an_ended_run_is_followed_no_more(server: Server) -> None:
    for state in ("done", "stopped", "failed"):
        server.start(state)
        before = len(server.asked)
        server.until(lambda before=before: len(server.asked) >= before + 2)
        server.write(stream.state(state, f"It ended: {state}."), identity=state)
        server.until_said(f"It ended: {state}.")
        server.write(*server.words(1), identity=state)
        assert server.asked_no_more()
        assert server.text == ""


def test_a_lost_connection_is_said_and_taken_up(server: Server, complaints: list[str]) -> None:
    server.start()
    server.write(*server.words(1, 2))
    server.until_drawn(" 1 2")
    server.act = lambda route: route.abort()
    server.until_said(RECONNECTING)
    server.write(*server.words(3))
    server.act = server.answer
    server.until_drawn(" 1 2 3")
    server.write(stream.state("done", "Done."))
    server.until_said("Done.")
    assert all("Failed to load resource" in each for each in complaints)
    complaints.clear()


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_run_the_server_lost_has_failed(server: Server, complaints: list[str], refusal: str) -> None:
    server.start()
    server.write(*server.words(1, 2))
    server.until_drawn(" 1 2")
    before = len(server.asked)
    server.act = REFUSALS[refusal]
    server.until(lambda: len(server.asked) > before)
    server.until_said(LOST)
    assert server.asked_no_more()
    assert server.tab.get_attribute(".lens-stage", "data-state") == "failed"
    assert server.tab.evaluate(ENDED) == [["submit", "run"]]  # so that the buttons come back
    complaints.clear()
    server.act = server.answer
    server.start("next")
    server.write(*server.words(1), stream.state("done", "Done."), identity="next")
    server.until_said("Done.")
    assert server.text == " 1"


def test_answers_of_earlier_runs_are_not_drawn(server: Server) -> None:
    held: list[Route] = []
    server.act = held.append
    server.start()
    server.until(lambda: len(held) == 1)
    server.start("next")
    server.until(lambda: len(held) == 2)
    server.write(*server.words(1), stream.state("done", "Done."), identity="next")
    server.act = server.answer
    server.answer(held[1])
    server.until_said("Done.")
    assert server.text == " 1"
    assert server.asked == [("run", 0), ("next", 0)]


def test_new_lanes_are_no_answer_to_run(mount: Callable[..., Page], play: Any) -> None:
    tab = mount()
    tab.clock.install()
    tab.evaluate("document.body.append(Object.assign(document.createElement('button'), { id: 'run' }))")
    tab.locator("#run").dispatch_event("click")
    play.start(tab, play.lane("b", "masks"))
    tab.clock.run_for(6000)
    assert tab.inner_text(".lens-status").startswith("The server does not answer.")
