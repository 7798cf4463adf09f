"""The battery: posteriors with known moments, sampled by `iv.sample(posterior, draws=2000, seed=s)` and nothing else.

    python benchmarks/battery.py --data FOLDER [--seeds 1 2] [--only eight_schools funnel] [--results FOLDER]
    python benchmarks/battery.py --check [--data FOLDER]

Without ``--data``: the distributions that are hard for one reason each, whose moments are exact, and the package's own
expensive models. `_battery_published` describes the folder's format. ``--processes`` runs at a time, seed by seed.
A run is

- right, if every mean is within 4 standard errors and .1 sd, every sd within 10%, and there was no warning;
- warned, if there was a warning; "needlessly", if it is right otherwise;
- imprecise, if it is within 4.5 of its own standard errors all the same, those of the sds too;
- a silent failure otherwise.

Least ESS is that of means, squares about them and the energy, per 1,000 gradients of all fidelities, warm-up included.
If coarse ones are cheaper, it is also given by the work of the finest. If nutpie is installed, its NUTS samples the
same density without bounds. It draws ``--nuts-draws`` (0: none), and its rate is scaled to as many draws as ours.
Results are appended to two files of JSON lines in the folder ``--results``, ours.jsonl and nuts.jsonl. Stored runs are
assessed again, but not repeated. ``--check`` compares gradients with finite differences instead.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is imported

import argparse
import json
import multiprocessing
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import _battery_geometry
import _battery_hard
import _battery_hierarchies
import _battery_models
import _battery_own
import _battery_published
from _battery_case import Case
from _battery_nuts import nuts

import invsamp as iv
from invsamp.diagnostics import ess
from invsamp.protocols import Array

CHAINS = 4
Record = dict[str, Any]


def compared(case: Case, summary: Record) -> Record:
    """Errors of the draws' means and sds, compared with the known ones."""
    mean, sd, error = case.moments
    estimated = {name: np.asarray(values, dtype=float) for name, values in summary.items()}
    with np.errstate(all="ignore"):
        off, ratio = estimated["mean"] - mean, estimated["sd"] / sd
        z = off / np.hypot(estimated["mcse_mean"], error)
        # the error of the reference's sd is about as large as that of its mean
        z_sd = (estimated["sd"] - sd) / np.hypot(estimated["mcse_sd"], error)
    worst_mean, worst_sd = int(np.nanargmax(np.abs(off / sd))), int(np.nanargmax(np.abs(np.log(ratio))))
    right = bool((np.abs(z) <= 4.0).all() and (np.abs(off) <= 0.1 * sd).all() and (np.abs(ratio - 1.0) <= 0.1).all())
    return {
        "right": right,
        "honest": bool((np.abs(z) <= 4.5).all() and (np.abs(z_sd) <= 4.5).all()),
        "z": float(np.nanmax(np.abs(z))),
        "mean": [case.labels[worst_mean], float(off[worst_mean] / sd[worst_mean])],
        "sd": [case.labels[worst_sd], float(ratio[worst_sd])],
    }


def judged(case: Case, values: Array, energy: Array, log_weight: Array | None = None) -> Record:
    """Errors of draws (chains, draws, q), with the summary that gives them, and their least ESS."""
    labels, every = case.labels, len(case.labels)
    with np.errstate(all="ignore"):
        found = iv.diagnostics.statistics(values, log_weight)
        squares = np.square(values - case.moments[0])
        sizes = ess(np.concatenate([values, squares, energy[..., None]], axis=2), log_weight=log_weight)
        rhat = iv.diagnostics.rhat(values, log_weight)
    least = int(np.nanargmin(np.where(np.isfinite(sizes), sizes, np.inf)))
    kind = ["", "square of "][least // every] + labels[least % every] if least < 2 * every else "energy"
    summary = {name: np.asarray(found[name]).tolist() for name in ("mean", "sd", "mcse_mean", "mcse_sd")}
    return compared(case, summary) | {
        "summary": summary,
        "ess": float(sizes[least]),
        "least": kind,
        "ess_of_means": float(np.nanmin(np.where(np.isfinite(sizes), sizes, np.inf)[:every])),
        "rhat": float(np.nanmax(rhat)),
    }


def ours(case: Case, draws: int, seed: int) -> Record:
    """One run of `iv.sample` with nothing chosen."""
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = iv.sample(case.problem, draws=draws, seed=seed, progress=False)
    theta, report = run.theta, run.report
    values = case.quantities(theta.reshape(-1, theta.shape[2])).reshape(*theta.shape[:2], -1)
    weight = None if run.weights is None else np.log(run.weights)
    messages = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    messages += [text for text in run.warnings() if text not in messages]
    counts = report["evaluations"]
    return judged(case, values, run.data.sample_stats["energy"].values, weight) | {
        "gradients": sum(counts.values()),
        "work": sum(count * (case.weights or {}).get(name, 1.0) for name, count in counts.items()),
        "by_fidelity": counts,
        "spent": report["spent"],
        "decisions": report["decisions"],
        "sampler": report["sampler"],
        "warnings": messages,
        "seconds": time.perf_counter() - began,
    }


def theirs(case: Case, draws: int, seed: int, as_many: int) -> Record:
    """The same by nutpie's NUTS; its counts are those that ``as_many`` draws would have."""
    free = case.unconstrained()
    if free is None:
        return {"failed": "no form without bounds"}
    began, (potential, quantities) = time.perf_counter(), free
    found = nuts(potential, draws, CHAINS, seed)
    values = quantities(found.positions.reshape(-1, potential.dimension)).reshape(*found.energy.shape, -1)
    record, longer = judged(case, values, found.energy), as_many / draws
    return record | {
        "ess": longer * record["ess"],
        "gradients": found.warmup_gradients + longer * found.gradients,
        "draws_made": draws,
        "divergences": found.divergences,
        "seconds": time.perf_counter() - began,
    }


def limited(function: Callable[..., Record], limit: float, *arguments: Any) -> Record:
    """What the function returns, in a process of its own, or why it failed."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)

    def work() -> None:
        try:
            there.send(function(*arguments))
        except Exception as error:
            there.send({"failed": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()})

    process = context.Process(target=work)
    process.start()
    there.close()
    try:
        found: Record = here.recv() if here.poll(limit) else {"failed": f"no end within {limit:g} seconds"}
        return found
    except EOFError:
        return {"failed": "the process was lost"}
    finally:
        process.kill()
        process.join()


def verdict(record: Record) -> str:
    """The verdict on one run."""
    if "failed" in record:
        return "failed"
    if record["warnings"]:
        return "needlessly warned" if record["right"] else "warned"
    if record["right"]:
        return "right"
    return "imprecise" if record["honest"] else "SILENT"


def rate(record: Record | None, by: str = "gradients") -> float:
    """Least ESS per 1,000 gradients, or by work; NaN where there is none."""
    if record is None or "failed" in record:
        return float("nan")
    return 1000.0 * record["ess"] / record.get(by, record["gradients"])


def shown_rhat(value: float) -> str:
    """R-hat as text; it is unbounded for chains that never move."""
    return f"{value:.3f}" if value < 100.0 else "> 100"


def table(records: Iterable[Record]) -> str:
    """Markdown table with a row for each posterior, over its seeds."""
    lines = [
        "| posterior | gradients | worst mean (sd) | worst sd | R-hat | least ESS | NUTS | ratio | verdicts |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rows: dict[str, list[Record]] = {}
    for record in records:
        rows.setdefault(record["name"], []).append(record)
    ratios = []
    for name, found in rows.items():
        ended = [r["ours"] for r in found if "failed" not in r["ours"]]
        counts: dict[str, int] = {}
        for r in found:
            counts[verdict(r["ours"])] = counts.get(verdict(r["ours"]), 0) + 1
        said = ", ".join(f"{n} {text}" if len(found) > 1 else text for text, n in counts.items())
        if not ended:
            lines.append(f"| {name} | | | | | | | | {said} |")
            continue
        worst = max(ended, key=lambda r: abs(r["mean"][1]))["mean"]
        sd = max(ended, key=lambda r: abs(np.log(max(r["sd"][1], 1e-300))))["sd"]
        us, them = (_median([rate(r.get(who)) for r in found]) for who in ("ours", "nuts"))
        by_work = _median([rate(r["ours"], "work") for r in found])
        wrong = [r for r in found if not r.get("nuts", {}).get("right", True)]
        note = f" ({len(wrong)} wrong)" if wrong else ""
        if np.isfinite(us / them):
            ratios.append(us / them)
        lines.append(
            f"| {name} | {np.median([r['gradients'] for r in ended]):,.0f} | {worst[1]:+.3f} ({worst[0]}) "
            f"| {sd[1]:.3f} ({sd[0]}) | {shown_rhat(max(r['rhat'] for r in ended))} "
            f"| {us:.3g}{f' (by work {by_work:.3g})' if by_work > 1.05 * us else ''} "
            f"| {them:.3g}{note} | {us / them:.2f} | {said} |".replace("nan", "-")
        )
    every = [verdict(r["ours"]) for group in rows.values() for r in group]
    lines += ["", ", ".join(f"{every.count(v)} {v}" for v in dict.fromkeys(every)) + f" of {len(every)} runs"]
    if ratios:
        lines[-1] += (
            f"; least ESS per gradient relative to NUTS {np.median(ratios):.2f} in the median, {min(ratios):.2f} least"
        )
    return "\n".join(lines)


def _median(values: list[float]) -> float:
    """Median of the finite values; NaN if there is none."""
    known = [value for value in values if np.isfinite(value)]
    return float(np.median(known)) if known else float("nan")


def check(case: Case) -> str:
    """Largest relative error of the gradient along random directions, at points of the distribution's scale."""
    rng, worst = np.random.default_rng(0), 0.0
    potentials = [case.problem.potential(name) for name in case.problem.fidelities]
    starts = case.problem.sample_start(rng, 20)
    points = [(potential, starts) for potential in potentials]
    if case.smooth is not None:
        points.append((case.smooth, rng.standard_normal((20, case.smooth.dimension))))
    for potential, at in points:
        energy, gradient = potential.energy_and_gradient(at)
        for x, u, slope in zip(at, energy, gradient, strict=True):
            if not np.isfinite(u):
                continue
            direction = rng.standard_normal(len(x)) * np.maximum(np.abs(x), 1e-12)
            ends = [potential.energy((x + sign * 1e-5 * direction)[None])[0] for sign in (1.0, -1.0)]
            there = (ends[0] - ends[1]) / 2e-5
            if np.isfinite(there):
                size = np.abs(slope * direction).sum() + 1e-6 * abs(u)
                worst = max(worst, abs(there - slope @ direction) / size)
    return f"{case.name}: largest error of a directional derivative {worst:.1e}"


def cases(folder: Path | None, only: list[str]) -> list[Callable[[], Case]]:
    """Builders of the posteriors that were asked for."""
    found: dict[str, Callable[[], Case]] = {}
    if folder is not None:
        for name in _battery_published.BUILDERS:
            found[name] = lambda name=name: _battery_published.published(folder, name)
    for module in (_battery_hard, _battery_geometry, _battery_hierarchies, _battery_models, _battery_own):
        found |= module.BUILDERS
    if unknown := [name for name in only if name not in found]:
        raise SystemExit(f"--only must name some of {', '.join(found)}; got {', '.join(unknown)}")
    return [found[name] for name in only or found]


class Results:
    """Records by posterior, seed and draws, in memory and as lines of a file."""

    def __init__(self, folder: Path | None, who: str) -> None:
        self._file = None if folder is None else folder / f"{who}.jsonl"
        lines = self._file.read_text().splitlines() if self._file is not None and self._file.exists() else []
        self._found = {(r["name"], r["seed"], r["draws"]): r for r in map(json.loads, lines)}
        self._lock = threading.Lock()

    def get(self, name: str, seed: int, draws: int, made: Callable[[], Record]) -> Record:
        """The stored record, or a new one."""
        if (name, seed, draws) not in self._found:
            record = {"name": name, "seed": seed, "draws": draws} | made()
            with self._lock:
                self._found[name, seed, draws] = record
                if self._file is not None:
                    self._file.parent.mkdir(parents=True, exist_ok=True)
                    with self._file.open("a") as file:
                        file.write(json.dumps(record) + "\n")
        return self._found[name, seed, draws]


def main() -> None:
    """Run, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of posteriordb's data and reference moments")
    parser.add_argument("--seeds", type=int, nargs="*", default=[1])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--nuts-draws", type=int, default=1000)
    parser.add_argument("--limit", type=float, default=900.0, help="seconds for one run")
    parser.add_argument("--processes", type=int, default=1, help="runs at a time")
    parser.add_argument("--results", type=Path, help="folder of earlier results, which are reused")
    parser.add_argument(
        "--check", action="store_true", help="compare gradients with finite differences, and sample nothing"
    )
    given = parser.parse_args()
    chosen = cases(given.data, given.only)
    if given.check:
        for build in chosen:
            print(check(build()), flush=True)
        return
    against = given.nuts_draws > 0 and find_spec("nutpie") is not None
    mine, others = Results(given.results, "ours"), Results(given.results, "nuts")

    def one(case: Case, seed: int) -> Record:
        key, record = (case.name, seed, given.draws), {"name": case.name, "seed": seed}
        record["ours"] = mine.get(*key, partial(limited, ours, given.limit, case, given.draws, seed))
        if against:
            arguments = case, given.nuts_draws, seed, given.draws
            record["nuts"] = others.get(*key, partial(limited, theirs, given.limit, *arguments))
        for found in (record[who] for who in ("ours", "nuts") if "summary" in record.get(who, {})):
            found |= compared(case, found["summary"])  # stored: compared with the present moments
        print(line(record), file=sys.stderr, flush=True)
        return record

    posed = [build() for build in chosen]
    with ThreadPoolExecutor(given.processes) as pool:
        running = {(case.name, seed): pool.submit(one, case, seed) for seed in given.seeds for case in posed}
    records = [running[case.name, seed].result() for case in posed for seed in given.seeds]
    print(table(records))


def line(record: Record) -> str:
    """One run in one line."""
    found = record["ours"]
    short = found.get("failed", "; ".join(text[:60] for text in found.get("warnings", [])))
    return (
        f"{record['name']} seed {record['seed']}: {verdict(found)}, {rate(found):.3g} per 1,000 "
        f"(NUTS {rate(record.get('nuts')):.3g}) {short}"
    )


if __name__ == "__main__":
    main()
