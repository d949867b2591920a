"""Users and passwords. The time of a comparison reveals nothing about the password, and guessing is slowed down.

Guesses are counted for each pair of account and address, so only the one who guesses waits.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

SECONDS_AFTER_A_WRONG_ONE = 1.0
MOST_SECONDS = 60.0
LONGEST_WAIT = 20.0
FORGOTTEN_AFTER_SECONDS = 900.0
MOST_REMEMBERED = 10_000
ADDRESS: ContextVar[str] = ContextVar("address", default="")
"""The address that the request being answered comes from."""
_PRETENCE = "no password of anybody"


@dataclass(slots=True)
class _Guesses:
    """The number of wrong guesses in a row, and the time at which the next one may be checked."""

    wrong: int = 0
    next: float = 0.0


class Accounts:
    """Users and passwords; `check` is the function for Gradio's `auth`."""

    def __init__(
        self,
        passwords: Mapping[str, str],
        wait_seconds: float = SECONDS_AFTER_A_WRONG_ONE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._passwords = dict(passwords)
        self._wait_seconds = wait_seconds
        self._clock = clock
        self._guesses: dict[tuple[str, str], _Guesses] = {}

    def __repr__(self) -> str:
        return f"Accounts of {', '.join(self._passwords)}"

    def knows(self, user: str, password: str) -> bool:
        """Whether this is the password of this user."""
        expected = self._passwords.get(user, _PRETENCE)
        same = hmac.compare_digest(expected.encode(errors="surrogatepass"), password.encode(errors="surrogatepass"))
        return same and user in self._passwords

    async def check(self, user: str, password: str) -> bool:
        """`knows`, one guess at a time for each account and address; the wait before it doubles with each wrong guess.

        A guess that would wait longer than LONGEST_WAIT is refused unseen.
        """
        key, now = (user[:64], ADDRESS.get()), self._clock()
        found = self._guesses.setdefault(key, _Guesses())
        turn = max(now, found.next)
        if turn - now > LONGEST_WAIT:
            return False
        found.next = turn + self._pause(found.wrong)
        if turn > now:
            await asyncio.sleep(turn - now)
        if self.knows(user, password):
            self._guesses.pop(key, None)
            return True
        found.wrong += 1
        found.next = max(found.next, turn + self._pause(found.wrong))
        self._forget()
        await asyncio.sleep(self._wait_seconds)
        return False

    def _pause(self, wrong: int) -> float:
        """Seconds to wait between two guesses, after so many wrong ones."""
        return min(MOST_SECONDS, self._wait_seconds * 2 ** min(wrong, 16)) if wrong else self._wait_seconds

    def _forget(self) -> None:
        """Keep no guesses of long ago, and no more than MOST_REMEMBERED of all."""
        now = self._clock()
        old = [key for key, found in self._guesses.items() if found.next + FORGOTTEN_AFTER_SECONDS < now]
        for key in [*old, *list(self._guesses)[: max(0, len(self._guesses) - len(old) - MOST_REMEMBERED)]]:
            self._guesses.pop(key, None)


def read_accounts(given: Sequence[str], file: Path | None = None) -> Accounts | None:
    """Accounts from `USER:PASSWORD` strings and from the lines of a file; None when neither is given.

    Blank lines and lines that begin with # are skipped. ValueError says which of them is wrong, and no password.
    """
    if not given and file is None:
        return None
    entries = [(f"--auth number {number}", text) for number, text in enumerate(given, start=1)]
    if file is not None:
        entries += _lines(file)
    passwords: dict[str, str] = {}
    for where, text in entries:
        user, colon, password = text.partition(":")
        user = user.strip()
        if not colon or not user or not password:
            raise ValueError(f"{where} must be USER:PASSWORD, neither of them empty")
        if user in passwords:
            raise ValueError(f"{where} names the user {user!r} a second time")
        passwords[user] = password
    return Accounts(passwords)


def _lines(file: Path) -> list[tuple[str, str]]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise ValueError(f"--auth-file {file} cannot be read ({type(error).__name__})") from error
    found = [
        (f"--auth-file {file}, line {number}", line)
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not found:
        raise ValueError(f"--auth-file {file} names nobody: write one USER:PASSWORD a line")
    return found
