"""Draws docs/pictures/*.svg: what one pass of each decoder forwards, and which columns read which.

    python docs/pictures/draw.py

The pictures come from real passes: each decoder runs on the scripted model, and one of its passes is drawn as its
record says. A fixed script, so the files change only when a decoder does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS
from mars.records import Trace
from tests.scripted import ScriptedModel

Script = Callable[[int, int, int], tuple[int, float]]

PROMPT = [4, 5, 6, 7, 8]
REPLY = list(range(10, 28))
REPEATING = [4, 5, 6, 7, 8, *range(10, 28)]  # it begins with the prompt once more: something to copy
CELL, GAP, LEFT, TOP = 26, 3, 118, 74
COLOURS = {
    "prefix": ("#d8d8dc", "#333"),
    "clean": ("#3566c8", "#fff"),
    "draft": ("#e08a1e", "#1b1b1b"),
    "copy": ("#e8c24a", "#1b1b1b"),
    "mask": ("#ffffff", "#555"),
    "random": ("#b9a7dd", "#1b1b1b"),
}
NAMES = {
    "clean": "real token",
    "draft": "draft",
    "copy": "copy",
    "mask": "mask",
    "random": "guess",
    "prefix": "cached prefix",
}


def script(reply: Sequence[int]) -> Script:
    """The reply, sure of itself for two masks; those behind them are wrong and unsure."""

    def said(row: int, position: int, masks: int) -> tuple[int, float]:
        token = reply[position] if position < len(reply) else 2
        return (token, 0.99) if masks < 3 else (9, 0.4)

    return said


def traces(decoder: str, settings: DecodingSettings) -> list[Trace]:
    """What each pass of a run did."""
    scripted = ScriptedModel(script(REPEATING if decoder == "prompt_lookup" else REPLY))
    control = Control(settings.threshold, settings.score, trace=True)
    records = DECODERS[decoder](scripted, [PROMPT], settings, control)
    return [record.rows[0].trace for record in records if record.rows[0].trace is not None]


def picture(trace: Trace, title: str) -> str:
    """An SVG: the columns along both axes, and a square where the query of a line reads the key of a column."""
    columns = trace.reads
    cell = CELL if len(columns) <= 20 else 13
    step = cell + GAP if len(columns) <= 20 else cell + 1
    labels = list(_labels(columns, trace.positions))
    parts = []
    keys = ["prefix", *columns]
    for number, (kind, label) in enumerate(zip(keys, ["prefix", *labels], strict=True)):
        x = LEFT + number * step + (step if number else 0)
        width = cell + step if number == 0 else cell
        parts.append(_box(x, TOP - step, width, cell, kind, label if len(columns) <= 20 or number == 0 else ""))
    for line, (kind, label) in enumerate(zip(columns, labels, strict=True)):
        y = TOP + line * step + 6
        parts.append(_box(LEFT - step - 6, y, cell, cell, kind, label if len(columns) <= 20 else ""))
        seen_here = trace.sees(line)
        sees = [True, *(column in seen_here for column in range(len(columns)))]
        for number, seen in enumerate(sees):
            x = LEFT + number * step + (step if number else 0)
            width = cell + step if number == 0 else cell
            fill = COLOURS[keys[number]][0] if seen and keys[number] != "mask" else "#8a8f98" if seen else "#f1f1f3"
            parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{cell}" rx="2" fill="{fill}"/>')
    width = max(LEFT + (len(keys) + 1) * step + 20, 620)
    height = TOP + len(columns) * step + 48
    parts.append(_legend(dict.fromkeys(["prefix", *columns]), height - 22))
    parts.append(_text(16, 24, title, "#1b1b1b", 15, "start"))
    parts.append(_text(16, TOP + 20, "reads \u2192", "#555", 12, "start"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="system-ui, sans-serif" role="img" aria-label="{escape(title)}">\n'
        f'<rect width="{width}" height="{height}" rx="10" fill="#fbfbfc"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _labels(columns: Sequence[str], positions: Sequence[int]) -> Iterable[str]:
    """Columns numbered within their kind; each group of masks starts again at 1."""
    short = {"clean": "t", "draft": "d", "copy": "c", "mask": "m", "random": "g"}
    before, number = ("", 0), 0
    for kind, position in zip(columns, positions, strict=True):
        number = number + 1 if (kind, position - 1) == before else 1
        before = (kind, position)
        yield f"{short[kind]}{number}"


def _box(x: float, y: float, width: float, height: float, kind: str, label: str) -> str:
    fill, ink = COLOURS[kind]
    dashes = ' stroke="#8a8f98" stroke-dasharray="3 2"' if kind == "mask" else ""
    box = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="3" fill="{fill}"{dashes}/>'
    return box + _text(x + width / 2, y + height / 2 + 4, label, ink, 12, "middle")


def _legend(found: Iterable[str], y: float) -> str:
    parts, x = [], 16
    for kind in found:
        parts.append(_box(x, y - 11, 14, 14, kind, ""))
        parts.append(_text(x + 20, y, NAMES[kind], "#333", 12, "start"))
        x += 40 + 7 * len(NAMES[kind])
    return "".join(parts)


def _text(x: float, y: float, text: str, fill: str, size: int, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{fill}" text-anchor="{anchor}">{escape(text)}</text>'


# Decoder, file, settings, which of its windows, and the title of the picture.
PICTURES = [
    ("autoregressive", "autoregressive", {}, 2, "autoregressive: one column"),
    (
        "sliding_window",
        "sliding_window",
        {"block_size": 5},
        2,
        "sliding_window, B = 5: the tokens accepted last, then 4 masks",
    ),
    (
        "block_cached",
        "block_cached",
        {"block_size": 5, "cache_block_size": 8},
        3,
        "block_cached, B = 5: the cache block so far, then masks",
    ),
    (
        "self_speculative",
        "self_speculative_linear",
        {"block_size": 5, "layout": "linear"},
        2,
        "self_speculative, linear, K = 4",
    ),
    (
        "self_speculative",
        "self_speculative_quadratic",
        {"block_size": 4, "layout": "quadratic"},
        2,
        "self_speculative, quadratic, K = 3",
    ),
    ("prompt_lookup", "prompt_lookup", {"draft_tokens": 4}, 2, "prompt_lookup, K = 4: words seen before as drafts"),
    ("jacobi", "jacobi", {"draft_tokens": 4}, 2, "jacobi, K = 4: guesses instead of masks"),
]


def main() -> None:
    """Draw every picture whose decoder exists."""
    for decoder, name, options, number, title in PICTURES:
        passes = traces(decoder, DecodingSettings(max_new_tokens=18, **options))
        Path(__file__).with_name(f"{name}.svg").write_text(picture(passes[number], title))


if __name__ == "__main__":
    main()
