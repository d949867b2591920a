import asyncio
import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.server.accounts import ADDRESS, Accounts, read_accounts


def test_nobody_needs_to_log_in_unless_accounts_are_given() -> None:
    assert read_accounts([]) is None


@pytest.mark.parametrize(
    ("user", "password"), [("eva", "wrong"), ("eva", ""), ("", ""), ("tom", "secret"), ("e", "\ud800")]
)
def test_only_the_right_password_of_a_known_user_is_let_in(user: str, password: str) -> None:
    accounts = Accounts({"eva": "secret"}, wait_seconds=0.0)
    assert asyncio.run(accounts.check("eva", "secret"))
    assert not asyncio.run(accounts.check(user, password))


class Clock:
    """A clock that sleeping moves on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.slept: list[float] = []
        # Only there: a server in another thread of this process would never sleep again.
        monkeypatch.setattr("app.server.accounts.asyncio", SimpleNamespace(sleep=self._sleep))

    def __call__(self) -> float:
        return self.now

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_each_wrong_password_makes_the_next_wait_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    accounts = Accounts({"eva": "secret"}, clock=clock)
    assert asyncio.run(accounts.check("eva", "secret"))
    assert clock.slept == []
    began = []
    for _ in range(4):
        began.append(clock.now)
        assert not asyncio.run(accounts.check("eva", "guess"))
    waits = [later - earlier for earlier, later in itertools.pairwise([*began, clock.now])]
    assert waits == sorted(waits)
    assert waits[-1] >= 8
    assert asyncio.run(accounts.check("eva", "secret"))
    clock.slept.clear()
    assert asyncio.run(accounts.check("eva", "secret"))
    assert clock.slept == []


def test_many_guesses_at_once_are_looked_at_one_by_one() -> None:
    looked: list[str] = []

    class Counted(Accounts):
        def knows(self, user: str, password: str) -> bool:
            looked.append(password)
            return super().knows(user, password)

    async def storm() -> tuple[list[bool], bool]:
        accounts = Counted({"eva": "secret"}, wait_seconds=0.1)
        ADDRESS.set("10.0.0.1")
        guesses = [asyncio.create_task(accounts.check("eva", f"guess {number}")) for number in range(150)]
        await asyncio.sleep(0)
        ADDRESS.set("10.0.0.2")
        other = await asyncio.wait_for(accounts.check("eva", "secret"), 0.05)
        await asyncio.sleep(0.5)
        for guess in guesses:
            guess.cancel()
        return [guess.done() and not guess.cancelled() and guess.result() for guess in guesses], other

    found, other = asyncio.run(storm())
    assert other, "who comes from elsewhere waits for nobody"
    assert not any(found)
    assert len(looked) < 10


def test_what_is_remembered_of_guesses_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.server.accounts.MOST_REMEMBERED", 5)
    clock = Clock(monkeypatch)
    accounts = Accounts({"eva": "secret"}, clock=clock)
    for number in range(50):
        asyncio.run(accounts.check(f"user {number}" * 1000, "guess"))
    assert len(accounts._guesses) <= 5
    clock.now += 10_000
    asyncio.run(accounts.check("tom", "guess"))
    assert len(accounts._guesses) == 1


def test_a_file_may_hold_remarks_and_a_password_colons(tmp_path: Path) -> None:
    file = tmp_path / "accounts"
    file.write_text("# who may\n\neva : a:b \ntom:ü\n", encoding="utf-8")
    accounts = read_accounts(["amy:x"], file)
    assert accounts is not None
    assert len(accounts._passwords) == 3
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
