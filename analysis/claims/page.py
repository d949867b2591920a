"""The page of claims in Markdown: one table with the details folded below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from analysis.claims.judging import Claim, Comparison, Finding
from analysis.runs.schema import short_commit
from analysis.text_table import markdown

_INTRODUCTION = """Eight claims of the paper (arXiv 2604.07023; Qwen2.5 with 0.5B and 7B) and four of ours, on tiny
models and a pretrained one. `python -m analysis claims` writes this page from `{folder}`; `python -m analysis reproduce
claim-1` makes the runs."""

_METHOD = """Intervals are 95 %, wider where a verdict rests on several: Wilson's for accuracies, Tango's for
paired differences, the bootstrap over problems for ratios. "Surely" means the whole interval. Wall-clock is compared in
turns on an idle machine, with intervals over turns where known."""


def to_markdown(
    found: Mapping[Claim, Finding],
    folder: Path,
    problems: Sequence[str],
    real: Mapping[Claim, Finding],
) -> str:
    """The whole page: verdicts on the tiny models, and beside them those on the `real` one.

    `folder` is that of the runs, `problems` says what is wrong with some of them.
    """
    overview = [
        (str(claim.number), _title(claim), _cell(finding), _cell(real[claim])) for claim, finding in found.items()
    ]
    lines = [
        "# The claims, checked",
        "",
        _INTRODUCTION.format(folder=folder.as_posix()),
        "",
        markdown([("", "claim", "tiny models, 3.5 M", "a real model, 135 M"), *overview]),
        "",
        _METHOD,
    ]
    if problems:
        lines += ["", "Runs that could not be read are left out:", "", *(f"- {problem}" for problem in problems)]
    for claim, finding in found.items():
        lines += ["", *_details(claim, finding, real[claim])]
    return "\n".join(lines) + "\n"


def _cell(finding: Finding) -> str:
    """The verdict, the measured values and n."""
    if not finding.comparisons:
        return finding.verdict.value
    n = _n(finding)
    return f"**{finding.verdict.value}**: {_measured(finding)}{f' (n = {n})' if n else ''}"


def _title(claim: Claim) -> str:
    return f"{claim.title}{' (ours)' if claim.ours else ''}"


def _measured(finding: Finding) -> str:
    needs = f"needs {finding.needs}" if finding.needs else ""
    return "; ".join(part for part in (finding.headline, needs) if part)


def _details(claim: Claim, finding: Finding, real: Finding) -> list[str]:
    """One folded claim. The blank lines make Markdown of what stands inside the element."""
    lines = [
        "<details>",
        f"<summary>{claim.number}. {claim.title.replace('`', '')}: {finding.verdict.value}</summary>",
        "",
        f"{'We claim' if claim.ours else 'The paper claims'}: {claim.claimed}",
        "",
        f"Rule: {claim.rule}",
        *_found(finding),
    ]
    if real.comparisons:
        lines += ["", f"On the real model: {real.verdict.value}.", *_found(real)]
    return [*lines, "", "</details>"]


def _found(finding: Finding) -> list[str]:
    """The tables of a finding, what is missing, and where it comes from."""
    lines = []
    for _, rows in groupby(finding.comparisons, key=lambda comparison: [*comparison.compared, *comparison.measured]):
        lines += ["", _comparisons(list(rows))]
    if finding.needs:
        lines += ["", f"Not measured: {finding.needs}."]
    return [*lines, *_provenance(finding)]


def _comparisons(rows: Sequence[Comparison]) -> str:
    lines = [[*rows[0].compared, *rows[0].measured, "verdict"]]
    lines += [
        [*row.compared.values(), *row.measured.values(), row.verdict.value if row.verdict else ""] for row in rows
    ]
    judged = any(row.verdict for row in rows)
    return markdown(lines if judged else [line[:-1] for line in lines])


def _provenance(finding: Finding) -> list[str]:
    """Where the runs, or the benchmark files, come from."""
    if not finding.runs:
        return ["", f"n = {_n(finding)}; {', '.join(finding.where)}."] if finding.where else []
    sizes = ", ".join(map(_millions, _parameters(finding)))
    machines = ", ".join(sorted({run.hardware for run in finding.runs}))
    commits = ", ".join(sorted({short_commit(run.commit) for run in finding.runs}))
    count = len({run.id for run in finding.runs})
    where = f"{count} run{'s' * (count > 1)} on {machines}, commit{'s' * (',' in commits)} {commits}"
    return ["", f"{sizes} parameters, n = {_n(finding)}; {where}."]


def _n(finding: Finding) -> str:
    sizes = _problems(finding)
    return " to ".join(f"{size:,}" for size in dict.fromkeys([sizes[0], sizes[-1]])) if sizes else ""


def _problems(finding: Finding) -> list[int]:
    return sorted({*finding.n, *(run.n for run in finding.runs)})


def _parameters(finding: Finding) -> list[int]:
    models = [model for run in finding.runs for model in (run.model, run.draft) if model is not None]
    return sorted({model.parameters for model in models})


def _millions(parameters: int) -> str:
    return f"{parameters / 1e9:.3g} B" if parameters >= 1e9 else f"{parameters / 1e6:.3g} M"
