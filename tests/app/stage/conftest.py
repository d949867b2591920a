"""The stage of the Compare tab alone in a real Chromium, without a server, and what a run tells it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from app import assets, stream

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Message = dict[str, Any]

# The page puts style sheets in by the text of their rules, as Gradio does, in which some shorthands would be lost. What
# sets a value resolves once it has been read, for which the stage takes a task of its own.
PAGE = """<!doctype html><html lang="en"><head><title>stage</title></head><body><div class="gradio-container">
<div class="contain"><div class="keeping"><div class="lens-keeper"></div></div><div class="lens-controls">knobs</div>
<div class="staging"><div class="lens-stage"></div></div></div></div><script>
const sheet = new CSSStyleSheet();
sheet.replaceSync(%s);
const style = document.createElement("style");
style.textContent = [...sheet.cssRules].map((rule) => rule.cssText).join("\\n");
document.head.append(style);
const mounted = (selector, body) => {
  const props = { value: "" };
  const watchers = [];
  const element = document.querySelector(selector);
  new Function("element", "props", "watch", "trigger", body)(element, props, (_, act) => watchers.push(act), () => {});
  const set = (value) => {
    props.value = value;
    watchers.forEach((act) => act());
    return new Promise((read) => setTimeout(read));
  };
  return { set, add: (text) => set(props.value + text) };
};
window.told = [];
document.addEventListener("lens:counts", (event) => told.push(event.detail));
document.addEventListener("lens:step", (event) => { window.wish = event.detail; });
mounted(".keeping", %s);
window.value = mounted(".staging", %s);
</script></body></html>"""


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
        quoted(assets.styles(*assets.STYLES)),
        quoted(assets.script("remember.js", "keeper.js")),
        quoted(assets.script(*assets.STAGE_SCRIPTS)),
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
    """The messages of a run, and what puts them into the value of a stage."""

    @staticmethod
    def lane(key: str, family: str, **more: Any) -> Message:
        decoder = {"ar": "autoregressive", "masks": "sliding_window", "exact": "self_speculative"}[family]
        titles = {"ar": "AR", "masks": "MARS", "exact": "MARS exact"}
        known = {"key": key, "family": family, "title": titles[family], "checkpoint": f"small-{family}"}
        known |= {"decoder": decoder, "note": "CPU", "hint": "Nothing yet."}
        return {**known, "problem": None, "inactive": None, "choice": {}, **more}

    @staticmethod
    def token(piece: str, score: float = 0.99, kind: str = "clean", *, ends: bool = False) -> list[Any]:
        return [piece, score, kind, ends, kind, [[piece, score], ["other", 0.0004]]]

    @staticmethod
    def passed(key: str, number: int, tokens: Sequence[Any], ghosts: Sequence[Any] = (), **more: Any) -> Message:
        """One pass; the counts are those of passes that all accepted as many tokens."""
        count = len(tokens)
        lengths = [0] * (count - 1) + [number]
        counts: Message = {"tokens": count * number, "passes": number, "tokensPerForward": count}
        counts |= {"seconds": 0.5 * number, "tokensPerSecond": 2.0 * count, "shared": False, "lengths": lengths}
        known: Message = {"kind": "pass", "lane": key, "number": number, "start": count * (number - 1)}
        known |= {"threshold": None, "window": count + len(ghosts), "phase": "decode", "tokens": list(tokens)}
        known |= {"ghosts": list(ghosts), "refused": "threshold" if ghosts else None, "counts": counts}
        return {**known, **more}

    @staticmethod
    def feed(tab: Page, *messages: Message) -> None:
        """Let the value grow."""
        tab.evaluate("text => value.add(text)", "".join(map(stream.line, messages)))

    @staticmethod
    def start(tab: Page, *lanes: Message, identity: str = "run", live: bool = False) -> None:
        """A value that starts anew."""
        messages = stream.opening(identity, lanes, live), stream.state("running", "They write.")
        tab.evaluate("text => value.set(text)", "".join(map(stream.line, messages)))

    @classmethod
    def finish(cls, tab: Page, *keys: str) -> None:
        cls.feed(tab, *(stream.lane_end(key, "stop", "") for key in keys), stream.state("done", "Done."))

    @classmethod
    def sample(cls, tab: Page) -> None:
        """Two lanes, two passes each; that with masks rejects two proposals a pass."""
        cls.start(tab, cls.lane("a", "ar"), cls.lane("b", "masks"))
        ghosts = [["ghost", 0.6, "mask"], [" two", 0.3, "mask"]]
        for number in (1, 2):
            one, two = [cls.token("One")], [cls.token("One"), cls.token(" two", 0.97, "mask")]
            cls.feed(tab, cls.passed("a", number, one), cls.passed("b", number, two, ghosts, threshold=0.95))


@pytest.fixture(scope="session")
def play() -> type[Play]:
    """`play.start(tab, play.lane("b", "masks"))`, `play.feed(tab, play.passed("b", 1, [play.token("One")]))`, …"""
    return Play
