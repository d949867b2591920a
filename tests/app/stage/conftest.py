"""The stage of the Compare tab alone in a real Chromium, without a server, and what a run tells it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from app.browser import bundle
from app.compare import stream
from tests import standins

Message = dict[str, Any]

# The page puts style sheets in by the text of their rules, as Gradio does, in which some shorthands would be lost, and
# the bar comes after the stage. What sets a value resolves once it has been read, for which the stage takes a task.
PAGE = """<!doctype html><html lang="en">
<head><title>stage</title></head><body><div class="gradio-container">
<div class="contain"><div class="keeping"><div class="lens-keeper"></div></div>
<div class="staging"><div class="lens-stage"></div></div></div></div>%s<script>%s</script><script>
const sheet = new CSSStyleSheet();
sheet.replaceSync(%s);
const style = document.createElement("style");
style.textContent = [...sheet.cssRules].map((rule) => rule.cssText).join("\\n");
document.head.append(style);
window.ended = [];
const mounted = (selector, body) => {
  const props = { value: "" };
  const watchers = [];
  const element = document.querySelector(selector);
  const trigger = (name, detail) => ended.push([name, detail]);
  new Function("element", "props", "watch", "trigger", body)(element, props, (_, act) => watchers.push(act), trigger);
  const set = (value) => {
    props.value = value;
    watchers.forEach((act) => act());
    return new Promise((read) => setTimeout(read));
  };
  return { set };
};
document.addEventListener("lens:step", (event) => { window.wish = event.detail; });
mounted(".keeping", %s);
window.value = mounted(".staging", %s);
document.querySelector(".keeping").insertAdjacentHTML("afterend", "<div class=lens-controls>knobs</div>");
</script></body></html>"""


# What `bundle.mount` does once the page's script is there.
MOUNT = "lens.%s({ element, props, watch, tell: trigger, submit: (data) => trigger('submit', data) });"


def quoted(text: str) -> str:
    return stream.line({"text": text})[len('{"text":') : -2]


@pytest.fixture
def complaints() -> list[str]:
    """Errors of scripts and of the console; `mount` fails the test if one is left in the end."""
    return []


@pytest.fixture
def mount(chromium: Browser, complaints: list[str]) -> Iterator[Callable[..., Page]]:
    """`mount(width=1280)`: the stage, ready for `play`; fails the test if a script does."""
    contexts = []
    page = PAGE % (
        bundle.decoder_table(),
        bundle.script(),
        quoted(bundle.styles()),
        quoted(MOUNT % "runs"),
        quoted(MOUNT % "stage"),
    )

    def mount(width: int = 1280, height: int = 800, **options: Any) -> Page:
        context = chromium.new_context(
            viewport={"width": width, "height": height}, **{"reduced_motion": "reduce", **options}
        )
        contexts.append(context)
        context.route("**/*", lambda route: route.fulfill(body=page, content_type="text/html; charset=utf-8"))
        tab = context.new_page()
        tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.goto("http://stage.test/")
        return tab

    yield mount
    for context in contexts:
        context.close()
    assert complaints == []


class Play:
    """The messages of a run, and what hands them to a stage by its value."""

    lane, token, passed = staticmethod(standins.card), standins.Token, staticmethod(standins.passed)

    @staticmethod
    def feed(tab: Page, *messages: Message) -> None:
        """Hand on messages that come at once."""
        tab.evaluate("text => value.set(text)", "".join(map(stream.line, messages)))

    @staticmethod
    def start(tab: Page, *lanes: Message, identity: str = "run") -> None:
        """Other lanes, which write."""
        messages = stream.Opening(kind="open", id=identity, lanes=lanes), stream.state("running", "They write.")
        tab.evaluate("text => value.set(text)", "".join(map(stream.line, messages)))

    def finish(self, tab: Page, *keys: str) -> None:
        ends = (stream.End(kind="end", lane=key, reason="stop", tail="") for key in keys)
        self.feed(tab, *ends, stream.state("done", "Done."))

    @property
    def ghosts(self) -> list[Any]:
        """Two proposals of masks, both refused."""
        return [self.token("ghost", 0.6, "mask"), self.token(" two", 0.3, "mask")]

    def sample(self, tab: Page) -> None:
        """Two lanes, two passes each; that with masks rejects two proposals a pass."""
        self.start(tab, self.lane("a", "ar"), self.lane("b", "masks"))
        for number in (1, 2):
            one, two = [self.token("One")], [self.token("One"), self.token(" two", 0.97, "mask")]
            passes = self.passed("a", number, one), self.passed("b", number, two, self.ghosts, threshold=0.95)
            self.feed(tab, *passes)


@pytest.fixture(scope="session")
def play() -> Play:
    """`play.start(tab, play.lane("b", "masks"))`, `play.feed(tab, play.passed("b", 1, [play.token("One")]))`, …"""
    return Play()
