"""The settings and the records of a lane in a run file, checked one by one and against each other."""

from __future__ import annotations

from dataclasses import fields as dataclass_fields
from typing import Any

from app.runs.checks import fields, items, number, shown, text, whole
from mars.config import MAX_ALTERNATIVES, MAX_BLOCK_SIZE, MAX_DRAFT_TOKENS, DecodingSettings, check_threshold
from mars.metrics import COUNTED, GAINING
from mars.records import ForwardPass, Proposal, from_object

MAX_RECORDS = 4_096
MAX_PROPOSALS = 1 + 2 * max(MAX_BLOCK_SIZE, MAX_DRAFT_TOKENS)
MAX_TOKEN_ID = 2**31 - 1
MAX_QUERIES = 1_000_000
LONGEST_PASS_SECONDS = 86_400.0
HIGHEST_ENTROPY = 100.0
ROUNDING = 1e-6  # a probability in float32 may exceed 1 by this much


def lane_settings(value: object, name: str) -> DecodingSettings:
    """The settings, those that are not given at their defaults: a file may be older than a setting."""
    kinds = {field.name: field.type for field in dataclass_fields(DecodingSettings)}
    found = fields(value, name, (), kinds)
    checked = {key: _setting(found[key], f"{name}.{key}", str(kinds[key])) for key in found}
    try:
        return DecodingSettings(**checked)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _setting(value: object, name: str, kind: str) -> Any:
    """A value of the kind that the dataclass declares."""
    if kind == "bool":
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, got {shown(value)}")
        return value
    if kind == "int":
        return whole(value, name, 0, 2**63 - 1)
    if kind == "float | None" and value is None:
        return None
    if "float" in kind:
        return number(value, name, 0.0, 1e6)
    return text(value, name, 40)


def lane_records(value: object, settings: DecodingSettings, name: str) -> tuple[ForwardPass, ...]:
    """The records, parsed by `mars.records`; accepted prefixes must follow each other from the first token on."""
    records: list[ForwardPass] = []
    written = 0
    for place, data in enumerate(items(value, name, MAX_RECORDS, fewest=1)):
        here = f"{name}[{place}]"
        try:
            record = from_object(data)
        except ValueError as error:
            raise ValueError(f"{here}: {error}") from None
        _check_record(record, settings, here)
        if records and record.index <= records[-1].index:
            raise ValueError(f"{here}.index must be more than the one before, got {record.index}")
        row = record.rows[0]
        if record.phase in COUNTED and row.start != written:
            raise ValueError(f"{here}.start must be {written}, where the tokens before end, got {row.start}")
        written += row.accepted
        records.append(record)
    if written > settings.max_new_tokens:
        raise ValueError(f"{name} accept {written} tokens, and max_new_tokens allows {settings.max_new_tokens}")
    return tuple(records)


def _check_record(record: ForwardPass, settings: DecodingSettings, name: str) -> None:
    number(record.seconds, f"{name}.seconds", 0.0, LONGEST_PASS_SECONDS)
    whole(record.query_tokens, f"{name}.query_tokens", 1, MAX_QUERIES)
    whole(record.index, f"{name}.index", 0, MAX_TOKEN_ID)
    if len(record.rows) != 1:
        raise ValueError(f"{name}.rows must be the one row of this lane, got {len(record.rows)}")
    row = record.rows[0]
    whole(row.start, f"{name}.start", 0, MAX_TOKEN_ID)
    allowed = 1 <= row.accepted if record.phase in GAINING else record.phase in COUNTED or not row.accepted
    if not allowed:
        rule = "at least one token" if record.phase in GAINING else "nothing"
        raise ValueError(f"{name}: a {record.phase} pass must accept {rule}, got {row.accepted}")
    items(list(row.proposals), f"{name}.proposals", MAX_PROPOSALS)
    try:
        check_threshold(row.threshold, settings.score)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    highest = HIGHEST_ENTROPY if settings.score == "entropy" else 1.0 + ROUNDING
    for proposal in row.proposals:
        _check_proposal(proposal, highest, name)


def _check_proposal(proposal: Proposal, highest: float, name: str) -> None:
    whole(proposal.token_id, f"{name}.token_id", 0, MAX_TOKEN_ID)
    number(proposal.score, f"{name}.score", -ROUNDING, highest)
    items(list(proposal.alternatives), f"{name}.alternatives", MAX_ALTERNATIVES)
    for token, probability in proposal.alternatives:
        whole(token, f"{name}.alternatives", 0, MAX_TOKEN_ID)
        number(probability, f"{name}.alternatives", 0.0, 1.0 + ROUNDING)
