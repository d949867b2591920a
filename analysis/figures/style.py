"""The look of figures: colours, shapes and dashes that differ even without colour, a light and a dark template.

Only the template depends on the background, so a page changes between light and dark by the template alone.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from textwrap import wrap

import plotly.graph_objects as go

BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
OLIVE, PLUM = "#999933", "#AA4499"
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, OLIVE, PLUM)
"""Okabe and Ito's, without yellow and black, which vanish on one of the grounds, and two of Tol's."""
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "pentagon")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
"""Their numbers have no common divisor but 1, colours included: series that share one differ in others."""

NEUTRAL = "#79736c"
"""Legible on both grounds (4.5:1 on white): what belongs to no series."""
GUIDE = {"line": {"color": NEUTRAL, "width": 1.5, "dash": "dash"}, "layer": "below"}
"""A line behind the marks, to compare them with."""
PLOT_HEIGHT = 360
_TITLE_HEIGHT = 34
_SENTENCE_HEIGHT = 60
"""Pixels."""
WIDTH = 44
"""Characters of a line that fit on a telephone."""
_NO_TITLE, _LEGEND_LINE, _IN_A_LINE, _AXIS = 14, 22, 4, 64
FONT = '"IBM Plex Sans", ui-sans-serif, system-ui, sans-serif'


@dataclass(frozen=True, slots=True)
class Look:
    """The look of a series: each of colour, shape and dash distinguishes it from the others."""

    colour: str
    symbol: str
    dash: str

    @classmethod
    def number(cls, index: int) -> Look:
        """The look of the series with this index; that of the AR baseline is -1."""
        if index == BASELINE_RANK:
            return BASELINE
        return cls(
            COLOURS[index % len(COLOURS)],
            SYMBOLS[index % len(SYMBOLS)],
            DASHES[index % len(DASHES)],
        )


BASELINE = Look(NEUTRAL, "x", "dash")
BASELINE_RANK = -1


def plain(text: object) -> str:
    """`text` as Plotly shows it letter by letter: it reads a subset of HTML, %{…} as a name, and MathJax reads $…$."""
    return html.escape(str(text), quote=False).replace("$", "&#36;").replace("%", "&#37;")


def translucent(colour: str, opacity: float) -> str:
    """A colour `#rrggbb` with this opacity."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"


def template(*, dark: bool) -> go.layout.Template:
    """Everything that depends on the background; the background itself is transparent."""
    ink, line, card = ("#f3eee8", "#3f3a34", "#26221e") if dark else ("#1d1a17", "#e0dad2", "#ffffff")
    axis = {
        "gridcolor": line,
        "zeroline": False,
        "linecolor": NEUTRAL,
        "tickcolor": NEUTRAL,
        "ticks": "outside",
        "ticklen": 4,
        "automargin": True,
        "title": {"standoff": 8, "font": {"size": 13}},
    }
    return go.layout.Template(
        layout={
            "font": {"family": FONT, "size": 13, "color": ink},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "xaxis": axis,
            "yaxis": axis,
            "hoverlabel": {
                "bgcolor": card,
                "bordercolor": NEUTRAL,
                "font": {"color": ink, "size": 12},
                "align": "left",
            },
            "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": NEUTRAL, "activecolor": ink},
            "legend": {"bgcolor": "rgba(0,0,0,0)"},
            "colorway": COLOURS,
        }
    )


def finish(figure: go.Figure, name: str, *, plot_height: int = PLOT_HEIGHT) -> go.Figure:
    """Give `figure` the light template, its size, and a legend below.

    The zoom stays while figures called `name` follow each other. The height has room for the legend on a wide page. A
    larger legend scrolls, or the page makes the plot area `layout.meta["plot_height"]` high again.
    """
    named = [mark.name for mark in figure.data if mark.showlegend is not False]
    named += [shape.name for shape in figure.layout.shapes if shape.showlegend]
    lines = sum(1 + (name or "").count("<br>") for name in named)
    return figure.update_layout(
        template=template(dark=False),
        height=plot_height + _AXIS + _TITLE_HEIGHT + _LEGEND_LINE * -(-lines // _IN_A_LINE),
        meta={"plot_height": plot_height},
        margin={"l": 8, "r": 12, "t": _TITLE_HEIGHT if figure.layout.annotations else _NO_TITLE, "b": 8},
        minreducedheight=2,  # else Plotly takes the room of the words around a single bar
        hovermode="closest",
        uirevision=name,
        legend={
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 0,
            "yanchor": "bottom",
            "yref": "container",
            "maxheight": 0.5,
            "font": {"size": 12},
        },
    )


def empty(sentence: str, name: str) -> go.Figure:
    """A figure without data that says what is missing; `sentence` is ours, not of the data."""
    figure = go.Figure()
    figure.add_annotation(
        text="<br>".join(wrap(sentence, WIDTH)), showarrow=False, xref="paper", yref="paper", x=0.5, y=0.5
    )
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    return finish(figure, name, plot_height=_SENTENCE_HEIGHT)
