"""Who may log in. Passwords are compared in a time that says nothing about them, and guessing is slowed down."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping, Sequence
from pathlib import Path

SECONDS_AFTER_A_WRONG_ONE = 1.0
_PRETENCE = "no password of anybody"


class Accounts:
    """Users and passwords; an instance is what Gradio's `auth` calls."""

    def __init__(self, passwords: Mapping[str, str], wait_seconds: float = SECONDS_AFTER_A_WRONG_ONE) -> None:
        self._passwords = dict(passwords)
        self._wait_seconds = wait_seconds

    def __len__(self) -> int:
        return len(self._passwords)

    def __repr__(self) -> str:
        return f"Accounts of {', '.join(self._passwords)}"

    def knows(self, user: str, password: str) -> bool:
        """Whether this is the password of this user."""
        expected = self._passwords.get(user, _PRETENCE)
        same = hmac.compare_digest(expected.encode(errors="surrogatepass"), password.encode(errors="surrogatepass"))
        return same and user in self._passwords

    async def check(self, user: str, password: str) -> bool:
        """`knows`, which answers late when the password is wrong."""
        known = self.knows(user, password)
        if not known:
            await asyncio.sleep(self._wait_seconds)
        return known


def read_accounts(given: Sequence[str], file: Path | None = None) -> Accounts | None:
    """Accounts from `USER:PASSWORD` strings and from the lines of a file; None when neither is given.

    Blank lines and lines that begin with # are skipped. No message repeats a password.

    Raises:
        ValueError: one sentence that says which of them is wrong.
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
