"""Writes the page docs/validation/peers.md and its figure from results.jsonl and references.json.

python benchmarks/peers/page.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parent))

from _problems import CASES, HERE, references
from _samplers import SETTINGS

from invsamp.plots.figure import COLD, FAINT, HOT, INK, clean, new_figure, title

DOCS = HERE.parents[1] / "docs"
NAMES = {
    "invsamp": "invsamp",
    "nutpie": "nutpie",
    "nutpie_own": "nutpie, own starts",
    "numpyro": "NumPyro",
    "pints": "PINTS",
    "pypesto": "pyPESTO",
    "cuqipy": "CUQIpy",
    "tinyda": "tinyDA",
}
WHAT = {
    "invsamp": "`iv.sample(posterior)`, nothing chosen, all levels",
    "nutpie": "NUTS, low-rank metric, 400 steps of warm-up",
    "nutpie_own": "the same from starts uniform in (-2, 2), its default",
    "numpyro": "NUTS, diagonal metric, the model called from JAX",
    "pints": "adaptive Metropolis (Haario, Bardenet), its default",
    "pypesto": "20 optimizations, then adaptive parallel tempering from the best optimum",
    "cuqipy": "NUTS, no metric; with NumPy 2.4 an array of one number in it had to be made a number",
    "tinyda": "delayed acceptance over two levels, by preconditioned Crank-Nicolson or adaptive Metropolis",
}
#: Toolkits that make a comparison of a problem, and seeds that make a spread.
LEAST, SEEDS = 2, 3
HEAD = """# Beside other toolkits

Each problem ends with a sentence on who has more effective draws, per solve and per second. Each toolkit is given
invsamp's own forward model as a Python function and used as its documentation uses it, in an environment of its own.
`make peers` sets these up, samples, and writes this page from `benchmarks/peers/results.jsonl`. Measured on {dates},
with {versions}.

| the comparison is small | |
|---|---|
| runs | some ten seconds each, seeds: {seeds} |
| settings | one set for each toolkit and problem (`SETTINGS` of `benchmarks/peers/_samplers.py`) |
| forward models | under a millisecond, so that overhead shows, as where NumPyro calls them from JAX |
| FitzHugh-Nagumo's gradient in JAX | 1.2 to 1.7 times invsamp's seconds in forward mode, 2.4 to 3 in reverse |
| | (`benchmarks/peers/in_jax.py`) |
| starts | the same draws of the prior, unless noted; pyPESTO begins by optimization |
| warm-up | counted in solves and seconds |
| seconds | of a core ({machines}) shared with other work: factors below two mean nothing |
| comparisons | between runs on one kind of processor |
| solves | exact counts |
| toolkits | ODEs: NumPyro, PINTS, pyPESTO, nutpie; fields: CUQIpy, tinyDA, nutpie; two modes: all |

- *per 1,000 solves*: effective draws of the slowest parameter. With two modes it is those of the mode's indicator if
  these are fewer; none if a chain stays in its first mode. A solve with its gradient counts as one. One on a coarse
  mesh counts by its share of the finest one's unknowns, one of an ODE as one at any tolerance. CUQIpy asks for a
  density and its gradient separately, which is two.
- *means off*, *sds off*: root mean square over parameters of the error of means, in posterior sds, and of the sds'
  relative error. With n effective draws about 1/sqrt(n) and 1/sqrt(2n) are chance.
- *false*: the share of chains whose energies are not those of the posterior: a false mode, or a warm-up that has not
  converged.

![Effective draws per 1,000 solves and per second of each toolkit, with the range over seeds](../images/peers.png)

"""


def main() -> None:
    lines, found = results()
    (DOCS / "validation" / "peers.md").write_text(page(lines, found))
    late = {(one["toolkit"], one["problem"]) for one in lines if "unfinished" in one}
    figure(found, late).savefig(DOCS / "images" / "peers.png", dpi=110)


def results() -> tuple[list[dict[str, Any]], dict[tuple[str, str], list[dict[str, Any]]]]:
    """All lines of results.jsonl, and by toolkit and problem those with draws."""
    lines = [json.loads(line) for line in (HERE / "results.jsonl").read_text().splitlines()]
    done = [one for one in lines if "unfinished" not in one]
    return lines, {
        (t, p): [one for one in done if (one["toolkit"], one["problem"]) == (t, p)] for t in NAMES for p in CASES
    }


def page(lines: Sequence[dict[str, Any]], found: dict[tuple[str, str], list[dict[str, Any]]]) -> str:
    """The whole page."""
    dates = sorted({one["date"] for one in lines})
    versions = {NAMES[t]: sorted({one["version"] for one in lines if one["toolkit"] == t}) for t in NAMES}
    seeds = sorted({len(runs) for runs in found.values() if runs})
    said = f"{seeds[0]} to {seeds[-1]}" if seeds[0] != seeds[-1] else str(seeds[0])
    software = ", ".join(f"{name} {' and '.join(used)}" for name, used in versions.items() if used and "," not in name)
    machines = sorted({one["machine"] for one in lines})
    parts = [HEAD.format(dates=" and ".join(dates), versions=software, seeds=said, machines=" or ".join(machines))]
    if seeds[0] < SEEDS:
        parts.append(
            "\n**Some of what follows is of fewer than three seeds, from starts that not every chain gets away from in "
            "so short a run: read orders of magnitude, no digits.**\n"
        )
    missing = list[str]()
    for problem, case in CASES.items():
        if sum(bool(found[toolkit, problem]) for toolkit in NAMES) < LEAST:
            missing.append(case.title.split(":")[0])
        else:
            parts += section(problem, lines, found)
    if missing:
        parts.append(
            f"\n## Not run for this page\n\n{', '.join(missing)}: `make peers` has the settings, and runs them.\n"
        )
    used = "".join(f"| {NAMES[name]} | {text} |\n" for name, text in WHAT.items())
    parts.append(f"\n## What each was asked to do\n\n| toolkit | sampler |\n|---|---|\n{used}")
    return "".join(parts)


def section(
    problem: str, lines: Sequence[dict[str, Any]], found: dict[tuple[str, str], list[dict[str, Any]]]
) -> Iterator[str]:
    """The table of a problem, and its conclusions."""
    case, known, ours = CASES[problem], references()[problem], on(found["invsamp", problem])
    there = [t for t in NAMES if found[t, problem]]
    head = "| toolkit | seeds | per 1,000 solves | per second | solves | means off | sds off | false |"
    rows = "\n".join(row(t, found[t, problem], ours) for t in there)
    yield f"\n## {case.title}\n\n{head}\n|---|" + "---:|" * 7 + f"\n{rows}\n"
    elsewhere = [t for t in there if on(found[t, problem]) != ours and any(rates(found[t, problem])[1])]
    if elsewhere:
        others = "; ".join(f"{NAMES[t]} on {' and '.join(sorted(on(found[t, problem])))}" for t in elsewhere)
        yield f"\n\\* not on all processors of invsamp's runs, {' and '.join(sorted(ours))}: {others}.\n"
    error = np.array(known["error"]) / np.array(known["sd"])
    precision = f", known to {error.max():.2g} sd" if error.max() > 0 else ""
    yield f"\nReference: {case.source}{precision}. {verdict(problem, found)}\n"
    if "right" in known:
        shares = ", ".join(f"{NAMES[t]} {share:.2f}" for t in there if (share := sides(found[t, problem])) is not None)
        yield f"\nThe mode on the right holds {known['right']:.3f} of it all; of the draws, {shares}.\n"
    late = {
        t: [one for one in lines if (one["toolkit"], one["problem"]) == (t, problem) and "unfinished" in one]
        for t in NAMES
    }
    yield from (f"\n{unfinished(t, runs, len(found[t, problem]))}\n" for t, runs in late.items() if runs)
    waiting = [NAMES[t] for t in NAMES if (t, problem) in SETTINGS and t not in there and not late[t]]
    if waiting:
        yield f"\nNot run here, though `make peers` would: {', '.join(waiting)}. It cannot say who is best.\n"


def unfinished(toolkit: str, runs: Sequence[dict[str, Any]], others: int) -> str:
    """The sentence on runs without draws within their time."""
    solves = [one["solves"] for one in runs if "solves" in one]
    after = f"{runs[0]['unfinished']:.0f} seconds" + (f" and {np.mean(solves):,.0f} solves" if solves else "")
    count = f"{len(runs)} of {len(runs) + others}" if others or len(runs) > 1 else "one"
    of = f"{NAMES[toolkit]} ({count} run{'s' if len(runs) + others > 1 else ''})"
    return f"{of} had no draws after {after}, with these settings."


def rates(runs: Sequence[dict[str, Any]]) -> tuple[list[float], list[float]]:
    """Effective draws per 1,000 solves and per second, of each run."""
    return [1000 * one["ess"] / one["solves"] for one in runs], [one["ess"] / one["seconds"] for one in runs]


def on(runs: Sequence[dict[str, Any]]) -> set[str]:
    """The processors that runs took place on."""
    return {one["machine"] for one in runs}


def row(toolkit: str, runs: Sequence[dict[str, Any]], ours: set[str]) -> str:
    """One line of a table: means over the seeds, and their range; a star at seconds of other processors than ours."""
    solves, seconds = rates(runs)
    rest = [f"{np.mean([one[key] for one in runs]):.2g}" for key in ("mean_error", "sd_error")]
    false = f"{np.mean([one['false'] for one in runs]):.0%}"
    count, star = (
        f"{np.mean([one['solves'] for one in runs]):,.0f}",
        "" if on(runs) == ours or not any(seconds) else r" \*",
    )
    return (
        "| "
        + " | ".join([NAMES[toolkit], str(len(runs)), ranged(solves), ranged(seconds) + star, count, *rest, false])
        + " |"
    )


def sides(runs: Sequence[dict[str, Any]]) -> float | None:
    """Share of draws in the mode on the right, where there are two."""
    return float(np.mean([one["right"] for one in runs])) if runs and "right" in runs[0] else None


def ranged(values: Sequence[float]) -> str:
    """Mean, and the least and the largest."""
    middle = f"{np.mean(values):.3g}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.3g} to {max(values):.3g})"


def verdict(problem: str, found: dict[tuple[str, str], list[dict[str, Any]]]) -> str:
    """The comparison of invsamp with the others, in words."""
    ours = found["invsamp", problem]
    if not ours:
        return ""
    sentences = []
    # in favor of others: only their runs near the reference count
    sound = {name: [one for one in found[name, problem] if right([one])] for name in NAMES if name != "invsamp"}
    for index, unit in enumerate(("per solve", "per second")):
        factors = {name: factor for name, runs in sound.items() if (factor := ahead(ours, runs, index))}
        if not factors:
            if index == 0:
                sentences.append("No other of these runs came near the reference: there is nothing to compare with.")
            break
        best = min(factors, key=lambda name: factors[name])
        factor = factors[best]
        if index == 1 and 0.5 < factor < 2:
            sentences.append(f"Per second {NAMES[best]} has {1 / factor:.2g} times as many: too close to decide.")
        elif factor >= 1:
            sentences.append(
                f"{unit.capitalize()} invsamp has {factor:.2g} times as many effective draws as {NAMES[best]}."
            )
        else:
            sentences.append(
                f"**{unit.capitalize()} invsamp loses**: {NAMES[best]} has {1 / factor:.2g} times as many."
            )
    if not right(ours):
        sentences.insert(0, "**invsamp is off the reference here.**")
    sentences += [
        f"Of {len(found[name, problem])} runs of {NAMES[name]}, {len(runs)} came near the reference: these are meant."
        for name, runs in sound.items()
        if 0 < len(runs) < len(found[name, problem])
    ]
    wrong = [NAMES[name] for name, runs in sound.items() if found[name, problem] and not runs]
    if wrong:
        sentences.append(f"Off the reference, with these settings: {', '.join(wrong)}.")
    return " ".join(sentences)


def ahead(ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]], index: int) -> float | None:
    """How many times as many effective draws per solve (0) or per second (1) we have: seconds on processors of both."""
    machines = on(ours) & on(theirs) if index else on(ours) | on(theirs)
    mine, others = ([one for one in runs if one["machine"] in machines] for runs in (ours, theirs))
    return float(np.mean(rates(mine)[index]) / np.mean(rates(others)[index])) if mine and others else None


def right(runs: Sequence[dict[str, Any]]) -> bool:
    """No false mode or immobile chain, and errors of means below twice those of a hundred independent draws."""
    near = float(np.mean([one["mean_error"] for one in runs])) < 0.2
    return max(one["false"] for one in runs) == 0 and min(one["ess"] for one in runs) > 0 and near


def figure(found: dict[tuple[str, str], list[dict[str, Any]]], late: Container[tuple[str, str]]) -> Figure:
    """A row for each problem, on the left per 1,000 solves, on the right per second; hollow: off the reference."""
    run = {p: case for p, case in CASES.items() if sum(bool(found[name, p]) for name in NAMES) >= LEAST}
    shown = {p: [name for name in NAMES if found[name, p] or (name, p) in late] for p in run}
    heights = [1.0 + len(names) for names in shown.values()]
    made = new_figure(8.0, 0.6 + 0.3 * sum(heights))
    panels = made.subplots(len(run), 2, squeeze=False, height_ratios=heights)
    units = ("effective draws per 1,000 solves", "effective draws per second")
    for line, (problem, case) in enumerate(run.items()):
        for index, unit in enumerate(units):
            axes = panels[line, index]
            for at, name in enumerate(shown[problem]):
                runs = found[name, problem]
                values = rates(runs)[index]
                if not any(values):
                    text = "none" if runs else "no draws in time"
                    axes.text(0.01, at, text, transform=axes.get_yaxis_transform(), va="center", color=INK, fontsize=8)
                    continue
                color = HOT if name == "invsamp" else COLD
                filled = color if right(runs) else "none"
                axes.barh(at, float(np.mean(values)), color=filled, edgecolor=color, height=0.65, lw=1.0)
                axes.plot(values, [at] * len(values), "|-", color=INK, lw=1.2, ms=5)
            axes.set_xscale("log")
            axes.set_xlim(0.05, 2000.0)
            axes.set_ylim(-0.6, len(shown[problem]) - 0.4)
            axes.set_yticks(range(len(shown[problem])), [NAMES[name] for name in shown[problem]] if index == 0 else [])
            axes.invert_yaxis()
            clean(axes)
            if index == 0:
                title(axes, case.title.split(":")[0])
            if line == len(run) - 1:
                axes.set_xlabel(unit, color=INK, fontsize=8)
    made.supxlabel(
        "hollow: off the reference, or chains in false modes; lines: from seed to seed", fontsize=8, color=FAINT
    )
    return made


if __name__ == "__main__":
    main()
