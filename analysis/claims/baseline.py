"""Claim 12: speed-ups are over a baseline that is itself fast. From the files of `analysis bench --json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.claims.finding import Claim, Evidence, Finding, Table, Verdict, missing, rate, times
from analysis.claims.published import Published
from analysis.stats.intervals import Interval

BATCH = 4
"""The batch size of the paper's largest speed-up."""
PARAMETERS_7B = 7_615_616_512
BYTES = 2
"""Of a weight in bfloat16."""
H200_BYTES_PER_SECOND = 4.8e12
"""The nominal memory bandwidth of the paper's GPU."""
COLUMNS = (
    *("batch size", "generate tok/s", "our AR tok/s", "AR × generate"),
    *("fastest with τ", "× our AR", "× generate"),
)


def _claimed(published: Published) -> str:
    seconds = BATCH / published.ar_throughput(BATCH)
    needed = PARAMETERS_7B * BYTES / H200_BYTES_PER_SECOND
    return (
        f"The published AR baseline takes {1000 * seconds:.0f} ms per step at batch {BATCH} where reading the weights "
        f"takes {1000 * needed:.1f} ms: {needed / seconds:.0%} of the memory bandwidth. Ours is to be the fast one: "
        "surely faster than generate of transformers."
    )


def _fair(evidence: Evidence) -> Finding:
    """Our AR against generate, batch size by batch size, and what a slower baseline would make of MARS."""
    verdicts, measured, tables, commands, scale = [], [], [], [], []
    for name, bench in evidence.benches.items():
        results = {(result["contestant"], result["batch_size"]): result for result in bench["results"]}
        rows = []
        for size in sorted({size for contestant, size in results if contestant == "generate"}):
            ours, theirs = results.get(("autoregressive", size)), results[("generate", size)]
            if ours is None:
                continue
            gain = _interval(ours["speedup_over_generate"])
            verdicts.append(Verdict.of(holds=gain.surely_above(1), fails=gain.surely_below(1)))
            measured.append(f"{bench['device']}, batch {size}: our AR is {times(gain)} generate{_share(ours)}")
            rows.append(
                (
                    *(
                        str(size),
                        rate(_interval(theirs["tokens_per_second"])),
                        rate(_interval(ours["tokens_per_second"])),
                    ),
                    *(times(gain), *_fastest(results, size)),
                )
            )
        if rows:
            title = f"{name}: {bench['hardware']}, {bench['dtype']}, {bench['repeats']} rounds"
            tables.append(Table(title=title, columns=COLUMNS, rows=rows))
            commands.append(str(bench["command"]))
            scale.append(f"n = {bench['n']:,}")
    if not tables:
        return missing("what python -m analysis bench --json prints, with generate, as a file beside the runs")
    return Finding(
        verdict=Verdict.of_all(verdicts),
        measured=measured,
        tables=tables,
        commands=commands,
        scale=", ".join(dict.fromkeys(scale)),
        notes=["Intervals here are those of the rounds: medians with bootstrap intervals, as in `analysis bench`."],
    )


def _fastest(results: Mapping[tuple[str, int], Mapping[str, Any]], size: int) -> tuple[str, str, str]:
    """The fastest contestant that accepts by a threshold, over our AR and over generate."""
    found = {name: result for (name, batch), result in results.items() if batch == size and "@" in name}
    if not found:
        return "", "", ""
    name = max(found, key=lambda name: found[name]["tokens_per_second"]["median"])
    over = ("speedup_over_autoregressive", "speedup_over_generate")
    return name, *(times(_interval(found[name][key])) for key in over)  # type: ignore[return-value]


def _share(result: Mapping[str, Any]) -> str:
    share = result.get("bandwidth_share")
    return "" if share is None else f", at {_interval(share).value:.0%} of the copy bandwidth"


def _interval(estimate: Mapping[str, float]) -> Interval:
    return Interval(estimate["median"], estimate["low"], estimate["high"])


CLAIMS = (
    Claim(
        number=12,
        title="The baseline is a fair one",
        claimed=_claimed,
        rule="""It holds if our AR is surely faster than generate of transformers, on the same weights and in turns with
            it, at every batch size measured, and does not hold if it is surely slower at one.""",
        find=_fair,
        ours=True,
    ),
)
