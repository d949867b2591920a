import asyncio
from pathlib import Path

import pytest

from app.server.accounts import Accounts, read_accounts


def test_nobody_needs_to_log_in_unless_accounts_are_given() -> None:
    assert read_accounts([]) is None


@pytest.mark.parametrize(
    ("user", "password"), [("eva", "wrong"), ("eva", ""), ("", ""), ("tom", "secret"), ("e", "\ud800")]
)
def test_only_the_right_password_of_a_known_user_is_let_in(user: str, password: str) -> None:
    accounts = Accounts({"eva": "secret"}, wait_seconds=0.0)
    assert asyncio.run(accounts.check("eva", "secret"))
    assert not asyncio.run(accounts.check(user, password))


def test_a_wrong_password_is_answered_late(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("app.server.accounts.asyncio.sleep", sleep)
    accounts = Accounts({"eva": "secret"}, wait_seconds=2.0)
    asyncio.run(accounts.check("eva", "secret"))
    assert waited == []
    asyncio.run(accounts.check("eva", "guess"))
    assert waited == [2.0]


def test_a_file_may_hold_remarks_and_a_password_colons(tmp_path: Path) -> None:
    file = tmp_path / "accounts"
    file.write_text("# who may\n\neva : a:b \ntom:ü\n", encoding="utf-8")
    accounts = read_accounts(["amy:x"], file)
    assert accounts is not None
    assert len(accounts) == 3
    assert accounts.knows("eva", " a:b ")
    assert accounts.knows("tom", "ü")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("eva:x\nnothing-secret\n", "line 2 must be USER:PASSWORD"),
        ("eva:\n", "line 1 must be USER:PASSWORD"),
        (":secret\n", "line 1 must be USER:PASSWORD"),
        ("eva:x\neva:y\n", "line 2 names the user 'eva' a second time"),
        ("# nobody\n", "names nobody"),
    ],
)
def test_a_wrong_file_is_refused_without_a_secret(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "accounts"
    file.write_text(text)
    with pytest.raises(ValueError, match=sentence) as caught:
        read_accounts([], file)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "accounts"
    file.write_bytes(b"\xff\xfe:\x00")
    with pytest.raises(ValueError, match=r"cannot be read \(UnicodeDecodeError\)"):
        read_accounts([], file)


def test_what_is_shown_of_accounts_is_no_password() -> None:
    assert "secret" not in repr(Accounts({"eva": "secret"}))
