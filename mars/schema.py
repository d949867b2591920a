"""Data from outside as typed objects: dataclasses that pydantic reads, and what it complains of in our sentences.

A dataclass is `Strict` or `Open` and bounds its fields with `Field`; nothing is checked when code makes one, everything
when one is read. A field with a default may be missing: what was written before it was there still opens.

No torch here.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    with_config,
)
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from mars.text import printable

STRICT: Final = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
"""Text is not a number, true is not 1, and there are no other fields."""


class Strict:
    """The base of dataclasses that are read so."""

    __slots__ = ()
    __pydantic_config__: ClassVar = STRICT


class Open:
    """The base of those for documents of others, or of a newer version: further fields are left alone."""

    __slots__ = ()
    __pydantic_config__: ClassVar = ConfigDict({**STRICT, "extra": "ignore"})


@with_config(STRICT)
class StrictDict(TypedDict):
    """A dict of named fields: its subclasses are read as strictly as the dataclasses."""


Trouble = Mapping[str, Any]


def shown(value: object) -> str:
    """A value in a sentence, shortened."""
    return printable(reprlib.repr(value))


def parse(kind: Any, text: str | bytes, name: str = "") -> Any:
    """The `kind` that a JSON text holds; `name` is what sentences call the whole.

    ValueError, one sentence without a full stop: where, what is allowed, and what was there.
    """
    try:
        return adapter(kind).validate_json(text)
    except ValidationError as error:
        raise ValueError(sentence(error, name)) from None


def checked(kind: Any, value: object, name: str = "") -> Any:
    """As `parse`, for a value that has been parsed from JSON already; ValueError, one sentence without a full stop."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        raise ValueError(f"{name or 'the whole'} must be plain JSON, got {shown(value)}") from None
    return parse(kind, text, name)


def as_json(value: object) -> str:
    """An object of these dataclasses as `page_json` of its fields; ValueError where a number is not finite."""
    kind: Any = type(value)
    return page_json(adapter(kind).dump_python(value, mode="json"))


def page_json(plain: object) -> str:
    """JSON on one line. `<` is written as an escape, so that nothing in it looks like a tag of the page around it.

    ValueError where a number is not finite.
    """
    text = json.dumps(plain, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c")


@contextmanager
def prefixing_errors(place: str) -> Iterator[None]:
    """Put `place` before the sentence of a ValueError."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{place}{error}") from error


def sentence(error: ValidationError, name: str = "") -> str:
    """The first complaint; what is wrong says more than what is missing."""
    complaints = error.errors(include_url=False)
    first = next((each for each in complaints if each["type"] != "missing"), complaints[0])
    place, key = _place(first["loc"])
    within = "" if place.startswith("[") else ": "
    where = f"{name}{within}{place}" if name and place else place or name
    if first["type"] == "value_error":
        said = str(first["ctx"]["error"])
        return f"{where}{' ' if said.startswith('must ') else ': '}{said}" if where else said
    if first["type"] == "json_invalid":
        reason = str(first["ctx"]["error"])
        if reason.startswith("recursion limit"):
            return f"{name or 'the document'} has lists that are nested too deeply"
        if "escape" in reason or "surrogate" in reason:
            return f"{name or 'the document'} must be valid Unicode, but holds half a surrogate pair"
        return f"{name or 'the document'} is not JSON ({reason})"
    rule = _RULES.get(first["type"], lambda _: "is not what is allowed here")(first)
    got = "" if first["type"] in _WITHOUT_VALUE else f", got {shown(first['input'])}"
    return f"{'a key of ' * key}{where or 'the document'} {rule}{got}"


def bounds(lowest: float, highest: float) -> WrapValidator:
    """For a field: numbers from `lowest` to `highest`, whole ones where these are."""

    def check(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
        try:
            found = read(value)
        except ValidationError:
            found = None
        if found is None or not lowest <= found <= highest:
            what = "a whole number" if isinstance(highest, int) else "a number"
            allowed = f"{what} from {_plain(lowest)} to {_plain(highest)}"
            raise ValueError(f"must be {allowed}, got {shown(value)}")
        return found

    return WrapValidator(check)


def must_be(allowed: str, test: Callable[[Any], object]) -> AfterValidator:
    """For a field: values that pass this test, which may raise ValueError, and what they are called."""

    def check(value: Any) -> Any:
        try:
            fits = test(value)
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(f"must be {allowed}, got {shown(value)}")
        return value

    return AfterValidator(check)


def between(kind: type, lowest: float, highest: float) -> Any:
    """The numbers of this kind from `lowest` to `highest`, for `checked`."""
    return Annotated[kind, Field(strict=True), bounds(lowest, highest)]


def text_of(longest: int) -> Any:
    """Text of at most so many characters, for `checked`."""
    return Annotated[str, Field(strict=True, max_length=longest)]


def one_of(choices: Iterable[str]) -> Any:
    """One of these, for `checked`."""
    return Literal.__getitem__(tuple(choices))


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """The reader and writer of this kind; made once, since that takes longer than to read."""
    return TypeAdapter(kind)


def _place(path: tuple[str | int, ...]) -> tuple[str, bool]:
    """A path as lanes[1].text, and whether a key is meant instead of a value."""
    key = bool(path) and path[-1] == "[key]"
    parts = path[:-2] if key else path
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{printable(part)[:40]}" for part in parts)
    return place.removeprefix("."), key


def _choices(trouble: Trouble) -> str:
    found = trouble["ctx"]["expected"].replace(" or ", ", ").replace("'", "")
    return f"must be one of {found}" if ", " in found else f"must be {found}"


def _size(trouble: Trouble) -> str:
    bounds = trouble["ctx"]
    limit = f"at least {bounds['min_length']}" if "min_length" in bounds else f"at most {bounds['max_length']}"
    one = limit.endswith(" 1")
    words = ("character", "characters") if trouble["type"].startswith("string") else ("entry", "entries")
    return f"must have {limit} {words[0] if one else words[1]}, got {len(trouble['input'])}"


def _bound(words: str, name: str) -> Callable[[Trouble], str]:
    def rule(trouble: Trouble) -> str:
        return f"must be {words} {_plain(trouble['ctx'][name])}"

    return rule


def _plain(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


_RULES: dict[str, Callable[[Trouble], str]] = {
    "missing": lambda _: "is missing",
    "unexpected_keyword_argument": lambda _: "is unknown: there is no such field",
    "int_type": lambda _: "must be a whole number",
    "int_parsing": lambda _: "must be a whole number",
    "float_type": lambda trouble: f"must be a {'finite ' * (type(trouble['input']) is int)}number",
    "finite_number": lambda _: "must be a finite number",
    "bool_type": lambda _: "must be true or false",
    "string_type": lambda _: "must be text",
    "dataclass_type": lambda _: "must be an object",
    "dict_type": lambda _: "must be an object",
    "tuple_type": lambda _: "must be a list",
    "list_type": lambda _: "must be a list",
    "literal_error": _choices,
    "string_too_short": _size,
    "string_too_long": _size,
    "too_short": _size,
    "too_long": _size,
    "greater_than_equal": _bound("at least", "ge"),
    "greater_than": _bound("above", "gt"),
    "less_than_equal": _bound("at most", "le"),
}
_SIZES = {"string_too_short", "string_too_long", "too_short", "too_long"}
_WITHOUT_VALUE = {"missing", "unexpected_keyword_argument", *_SIZES}
