import pytest

from app.models.sentences import complete, without_paths


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/srv/models/mine/config.json is missing: copy it", "config.json is missing: copy it"),
        ("cannot read '/srv/models/a b': no", "cannot read 'a b': no"),
        ("~/models/mine is a file", "mine is a file"),
        (r"C:\models\mine\config.json is missing", "config.json is missing"),
        ("in /srv/one/two, and /srv/three/four.", "in two, and four."),
        ("see https://example.org/a/b and 1/2 of it", "see https://example.org/a/b and 1/2 of it"),
        ("tokens/forward and Qwen/Qwen2.5-0.5B", "tokens/forward and Qwen/Qwen2.5-0.5B"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_paths_are_shortened_to_their_last_part(text: str, shown: str) -> None:
    assert without_paths(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/srv/m/config.json is missing", "config.json of mine is missing"),
        ("/srv/m has no *.safetensors", "mine has no *.safetensors"),
        ("/srv/m2 is another", "m2 is another"),
    ],
)
def test_a_folder_is_called_by_its_name(text: str, shown: str) -> None:
    assert without_paths(text, {"/srv/m": "mine"}) == shown


def test_a_relative_folder_is_called_by_its_name() -> None:
    assert (
        without_paths("runs/x/mars.json: stage must be sft", {"runs/x": "mine"})
        == "mars.json of mine: stage must be sft"
    )


@pytest.mark.parametrize(("text", "shown"), [("no", "no."), ("no. ", "no."), ("no?", "no?")])
def test_a_sentence_ends_like_one(text: str, shown: str) -> None:
    assert complete(text) == shown
