from pathlib import Path

import pytest

from app.models import SHIPPED
from app.server import options
from app.server.options import Options


def read(*arguments: str) -> Options:
    return options.read(arguments)


def test_the_page_is_for_this_machine_only_and_for_everybody_on_it_unless_told_otherwise() -> None:
    site = read().site
    assert (site.host, site.accounts, site.mcp, site.frame_ancestors) == ("127.0.0.1", None, False, ())


def test_the_lanes_start_with_the_shipped_pair() -> None:
    chosen = read()
    assert chosen.choice == {"ar": "ar-sft", "mars": "mars-b8"}
    assert chosen.sources["mars-b8"] == str(SHIPPED / "mars-b8")


def test_checkpoints_are_offered_by_name_and_a_lane_may_start_with_one() -> None:
    chosen = read("--checkpoint", "small=org/small", "--checkpoint", "b.4_x=runs/b=4", "--ar", "small")
    assert chosen.choice == {"ar": "small", "mars": "mars-b8"}
    assert chosen.sources["small"] == "org/small"
    assert chosen.sources["b.4_x"] == "runs/b=4"


def test_one_folder_may_serve_both_lanes() -> None:
    assert read("--ar", "org/m", "--mars", "org/m").choice == {"ar": "m", "mars": "m"}


def test_a_folder_of_a_lane_that_has_a_name_goes_by_it() -> None:
    chosen = read("--checkpoint", "mine=org/m", "--mars", "org/m")
    assert chosen.choice["mars"] == "mine"
    assert list(chosen.sources.values()).count("org/m") == 1


def test_limits_and_places_are_taken_over() -> None:
    chosen = read("--places", "2", "--queue-size", "0", "--max-new-tokens-limit", "64", "--keep", "2")
    assert (chosen.places, chosen.queue_size, chosen.limits.new_tokens, chosen.keep) == (2, 0, 64, 2)


@pytest.mark.parametrize("given", ["/lens", "/a/b-c/", "https://example.org/lens", "http://host:8080", ""])
def test_a_root_path_is_a_path_or_a_whole_address(given: str) -> None:
    assert read("--root-path", given).site.root_path == given.rstrip("/")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--port", "0"], "must be a number between 1 and 65535"),
        (["--port", "-1"], "must be a number between 1 and 65535"),
        (["--port", "65536"], "must be a number between 1 and 65535"),
        (["--port", "http"], "must be a number between 1 and 65535"),
        (["--places", "0"], "must be a whole number from 1 to 64, got '0'"),
        (["--places", "²"], "must be a whole number from 1 to 64"),
        (["--queue-size", "-1"], "whole number from 0 to 1000"),
        (["--max-new-tokens-limit", "15"], "whole number from 16 to 32768"),
        (["--keep", "1"], "whole number from 2 to 64"),
        (["--checkpoint", "org/model"], "must be NAME=DIR_OR_ID"),
        (["--checkpoint", "a b=org/model"], "must be NAME=DIR_OR_ID"),
        (["--checkpoint", "../x=org/model"], "must be NAME=DIR_OR_ID"),
        (["--checkpoint", "x= "], "must be NAME=DIR_OR_ID"),
        (["--checkpoint", "x=a", "--checkpoint", "x=b"], "--checkpoint x is given twice"),
        (["--root-path", "lens"], "must be a path such as /lens"),
        (["--root-path", "/a b"], "must be a path such as /lens"),
        (["--root-path", "https://example.org/?x"], "must be a path such as /lens"),
        (["--root-path", "javascript:alert(1)"], "must be a path such as /lens"),
        (["--frame-ancestor", "*"], "must be an origin"),
        (["--frame-ancestor", "https://a.org; script-src *"], "must be an origin"),
        (["--auth", "nobody"], "--auth number 1 must be USER:PASSWORD"),
        (["--auth-file", "no/such/file"], "--auth-file no/such/file cannot be read"),
        (["--chekpoint", "x=y"], "unrecognized arguments"),
    ],
)
def test_what_is_wrong_is_refused_with_a_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        read(*arguments)
    assert left.value.code == 2
    assert sentence in capsys.readouterr().err


def test_mcp_without_its_package_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(options, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        read("--mcp")
    assert "pip install 'gradio[mcp]'" in capsys.readouterr().err


def test_frames_and_accounts_are_taken_over(tmp_path: Path) -> None:
    file = tmp_path / "accounts"
    file.write_text("eva:secret\n")
    site = read("--frame-ancestor", "https://*.hf.space", "--auth", "tom:x:y", "--auth-file", str(file)).site
    assert site.frame_ancestors == ("https://*.hf.space",)
    assert site.accounts is not None
    assert site.accounts.knows("tom", "x:y")
    assert site.accounts.knows("eva", "secret")
