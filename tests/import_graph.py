"""The import graph of the packages: its layers as declared, its arrows as the files have them.

    python -m tests.import_graph            print it as drawn in docs/architecture.md
    python -m tests.import_graph --write    draw it there again, after a change of packages or imports

A unit is a package, or a few loose modules drawn as one. A module imports from its own unit and from the layers below.
"""

import ast
import re
import sys
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"

Graph = Mapping[str, set[str]]
"""Each module or unit, and those that it imports."""

# Units without a dot are packages or modules of that name; the lowest layer first.
LAYERS: dict[str, list[dict[str, str]]] = {
    "mars_tasks": [
        {"base": "base sandbox_child"},
        {"sandbox": "sandbox", "logic": "logic"},
        {"families": "instructions multiple_choice python_functions table_lookup word_problems"},
    ],
    "mars": [
        {
            "records": "records schema config control metrics decoders options sampling acceptance chat text "
            "lines provenance garbage",
            "cluster": "cluster",
        },
        {"engine": "engine", "reference": "reference"},
        {"decoding": "decoding"},
        {"checkpoint": "checkpoint"},
        {"training": "training", "generate": "generate", "hub": "hub", "serve": "serve"},
    ],
    "mars_kernels": [{"cpu": "cpu", "cuda": "cuda"}],
    "analysis": [
        {
            "runs": "runs",
            "stats": "stats",
            "decoding": "decoding",
            "text_table": "text_table",
            "studies": "studies",
            "questions": "questions",
            "plotly_script": "plotly_script",
        },
        {"figures": "figures"},
        {"claims": "claims", "benches": "benches", "measured": "measured"},
        {"benchmarks": "benchmarks"},
        {"sweeps": "sweeps"},
        {"commands": "commands"},
        {"__main__": "__main__"},
    ],
    "app": [
        {"browser": "browser", "site": "site"},
        {"runs": "runs"},
        {"scheduling": "scheduling"},
        {"models": "models"},
        {"compare": "compare"},
        {"tradeoffs": "tradeoffs"},
        {"tabs": "tabs"},
        {"api": "api"},
        {"page": "page"},
        {"server": "server"},
        {"__main__": "__main__"},
    ],
    "mars_site": [
        {"onnx": "onnx", "record": "record", "recorded": "recorded", "zerogpu": "zerogpu"},
        {"records": "records"},
        {"live": "live", "page": "page"},
        {"command": "command"},
    ],
}
TOPS = tuple(LAYERS)
"""The packages of the repository; each may import those before it."""


def modules() -> dict[str, Path]:
    """Every module of the packages by its full name."""
    files = [file for top in TOPS for file in sorted((ROOT / top).rglob("*.py"))]
    return {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in files}


def module_graph() -> dict[str, set[str]]:
    """Which module imports which, late imports and those for types included."""
    files = modules()
    return {name: imported(file.read_text(encoding="utf-8"), files) - {name} for name, file in files.items()}


def imported(code: str, known: Iterable[str]) -> set[str]:
    """The modules among `known` that a file imports, at any depth."""
    names, found = set(known), set[str]()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & names
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found |= {full if full in names else node.module for full in inner.values()} & names
    return found


def circle(graph: Graph) -> list[str]:
    """A circle of the graph, its first name repeated at the end; empty if there is none."""
    try:
        TopologicalSorter({name: sorted(targets) for name, targets in graph.items()}).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))  # it names a module before those that import it
    return []


def placed() -> dict[str, tuple[int, int, str]]:
    """Where each package and loose module stands, by its full name: its top package, its layer, its unit."""
    return {
        f"{top}.{module}": (TOPS.index(top), layer, unit)
        for top, layers in LAYERS.items()
        for layer, units in enumerate(layers)
        for unit, members in units.items()
        for module in members.split()
    }


def place_of(module: str, places: Mapping[str, tuple[int, int, str]]) -> tuple[int, int, str] | None:
    """The place of a module's package, or of the module where it is a loose one; None where no layer names it."""
    return places.get(".".join(module.split(".")[:2]))


def upward(graph: Graph) -> list[str]:
    """The imports that run up or sideways, as sentences; a module that stands in no layer is one too."""
    places, found = placed(), list[str]()
    for module, targets in graph.items():
        if module in TOPS:
            continue
        here = place_of(module, places)
        if here is None:
            found.append(f"{module} is in no layer: name it in tests/import_graph.py")
            continue
        for target in sorted(targets - set(TOPS)):
            there = place_of(target, places)
            if there is not None and there != here and (there[0], there[1]) >= (here[0], here[1]):
                found.append(f"{module} imports {target}, which is not below it")
    return found


def unit_graph(graph: Graph, top: str) -> dict[str, set[str]]:
    """Which unit of a top package imports which other."""
    places, units = placed(), dict[str, set[str]]()
    for module, targets in graph.items():
        here = place_of(module, places)
        if here is None or TOPS[here[0]] != top:
            continue
        found = {there[2] for target in targets if (there := place_of(target, places)) and there[0] == here[0]}
        units[here[2]] = units.get(here[2], set()) | found - {here[2]}
    return units


def reduced(units: Graph) -> dict[str, set[str]]:
    """Without the arrows that a longer way says too."""

    def reach(name: str) -> set[str]:
        return {name}.union(*(reach(following) for following in units.get(name, ())))

    return {
        name: {target for target in targets if not any(target in reach(other) for other in targets - {target})}
        for name, targets in units.items()
    }


def drawn(graph: Graph) -> str:
    """The graph as one Mermaid diagram: a box a unit, an arrow an import, those that follow from others left out."""
    lines = ["flowchart TD"]
    for top in reversed(TOPS):
        units = reduced(unit_graph(graph, top))
        lines.append(f"    subgraph {top}")
        for layer in reversed(LAYERS[top]):
            for unit, members in layer.items():
                if unit in units:
                    targets = " & ".join(_key(top, target) for target in sorted(units[unit]))
                    lines.append(
                        f'        {_key(top, unit)}["{_label(unit, members)}"]' + f" --> {targets}" * bool(targets)
                    )
        lines.append("    end")
    tops = {top: set[str]() for top in TOPS}
    for module, targets in graph.items():
        tops[_top(module)] |= {_top(target) for target in targets} - {_top(module)}
    lines += [f"    {upper} --> {lower}" for upper, lowers in reduced(tops).items() for lower in sorted(lowers)]
    return "\n".join(lines)


def _top(module: str) -> str:
    return module.partition(".")[0]


def _key(top: str, unit: str) -> str:
    return f"{top}_{unit.strip('_')}"


def _label(unit: str, members: str) -> str:
    return unit if members == unit else members.replace(" ", ", ")


def written_in(page: str) -> str:
    """The diagram of the page."""
    found = re.search(r"```mermaid\n(flowchart TD\n.*?)\n```", page, re.DOTALL)
    return found[1] if found else ""


def main(arguments: list[str]) -> None:
    """Print the diagram, or write it to the page."""
    diagram = drawn(module_graph())
    if arguments != ["--write"]:
        sys.stdout.write(f"{diagram}\n")
        return
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page.replace(written_in(page), diagram), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
