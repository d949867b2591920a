"""What an address may say: values that the controls could have, and nothing else."""

import gradio as gr
import pytest

from app.scheduling import Limits
from app.tabs.address import keep_question, read, said_in, value_of

COMPONENTS = {
    "task": gr.Dropdown([("Logic", "logic"), ("Table", "table_lookup")], value="logic"),
    "pace": gr.Radio([("Slow", 3.0), ("Real time", 0.0)], value=3.0),
    "tau": gr.Slider(0.5, 1.0, value=0.95, step=0.01),
    "seed": gr.Number(0, precision=0),
    "top_p": gr.Number(1.0, minimum=0.1, maximum=1.0),
    "again": gr.Checkbox(value=False),
    "prompt": gr.Textbox(""),
    "limit": gr.Number(192, precision=0),
}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("task", "table_lookup", "table_lookup"),
        ("pace", "3", 3.0),
        ("pace", "0", 0.0),
        ("tau", "0.7", 0.7),
        ("tau", "1", 1),
        ("seed", "41", 41),
        ("top_p", "0.9", 0.9),
        ("again", "true", True),
        ("again", "false", False),
        ("prompt", "<b>How many?</b>\n", "<b>How many?</b>\n"),
    ],
)
def test_a_value_is_read_as_its_control_would(name: str, text: str, value: object) -> None:
    found = value_of(COMPONENTS[name], text)
    assert found == value
    assert isinstance(found, type(value))


@pytest.mark.parametrize(("said", "tau"), [({}, 0.95), ({"tau": "0.7"}, 0.7)])
def test_the_preset_that_named_its_threshold_still_opens(said: dict[str, str], tau: float) -> None:
    components = COMPONENTS | {"b.preset": gr.Radio(["AR", "MARS", "MARS exact"])}
    for text in (said | {"b.preset": "MARS τ = 0.95"}, {"b.preset": "MARS τ = 0.95"} | said):
        assert read(text, components) == {"b.preset": "MARS", "tau": tau}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("task", "Logic"),
        ("task", "sudoku"),
        ("pace", "4"),
        ("tau", "nan"),
        ("tau", "inf"),
        ("tau", ""),
        ("tau", "high"),
        ("seed", "1e999"),
        ("again", "yes"),
    ],
)
def test_an_impossible_value_is_refused(name: str, text: str) -> None:
    assert read({name: text, "limit": "64"}, COMPONENTS) == {"limit": 64}


@pytest.mark.parametrize(
    "text", [None, 7, "", "no JSON", "[1]", '"x"', "[" * 100_000, '{"tau": 0.7}', '{"tau": ["0.7"]}']
)
def test_what_is_no_object_of_texts_says_nothing(text: object) -> None:
    assert said_in(text) == {}


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ({"seed": "1000000"}, ["seed"]),
        ({"seed": "1.5"}, ["seed"]),
        ({"task": "logic", "seed": "-1"}, ["task", "seed"]),
        ({"limit": "8"}, ["limit"]),
        ({"limit": "513"}, ["limit"]),
        ({"tau": "0.4"}, ["tau"]),
        ({"prompt": "x" * 101}, ["prompt"]),
        ({"prompt": " "}, ["prompt"]),
        ({"prompt": "x" * 100, "limit": "512", "task": "logic", "seed": "3"}, []),
    ],
)
def test_an_impossible_question_is_refused(said: dict[str, str], refused: list[str]) -> None:
    found = read(said, COMPONENTS)
    keep_question(found, Limits(characters=100))
    assert found.keys() == said.keys() - set(refused)
