#!/usr/bin/env python3
"""Run the statistical tests with shifted seeds, and print by how much each verdict holds.

    python tests/tools/margins.py [--shifts 20] [--first 0] [--lacking] [--processes 1] [--folder .make/margins]
        [pytest's arguments ...]

A verdict's margin is bound / score if the right distribution has to pass, score / bound if a wrong one is rejected.
The table has the least over the shifts and the cases of a test, which must be above 1. `sds` says how far the mean of
score / bound (of its logarithm, for a wrong one) is from the threshold of the verdict, in its standard deviations over
the shifts. Reports stay in the folder and count in later tables, the latest of a test and a shift alone; `--shifts 0`
prints the table again. `--lacking` runs what has no report yet, those classes first whose verdicts cost least.

Each shift is a fork of a process that has imported what the tests import, but for the tests themselves.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import os
import sys
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
STATISTICAL = ["-m", "statistical", "-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT)]
#: Seconds that a fork takes before its first test, beside which those of its tests should be many.
WORTH_A_FORK = 40.0


class Collected:
    """A plugin of pytest that notes the tests which were chosen: node ids by the names in reports."""

    def __init__(self) -> None:
        self.nodes: dict[str, str] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            path, *classes, _ = item.nodeid.partition("[")[0].split("::")
            place = [path.removesuffix(".py").replace("/", "."), *classes]
            self.nodes[f"{'.'.join(place)}::{item.name}".removeprefix("tests.")] = item.nodeid


def collect(arguments: Sequence[str]) -> dict[str, str]:
    """Node ids of the statistical tests by their names in reports; what they import stays, the tests do not."""
    collected = Collected()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = pytest.main([*STATISTICAL, "--collect-only", *arguments], plugins=[collected])
    if status:
        sys.exit(f"{printed.getvalue()}exit status {status}")
    tests = str(ROOT / "tests")
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(tests) and name != "__main__":
            del sys.modules[name]  # the seeds in it are those of no shift
    return collected.nodes


def run(shift: int, arguments: Sequence[str], folder: Path) -> int:
    """Start the tests at one shift, in a fork whose number is returned; their report is a file in the folder."""
    stem = folder / f"{shift}-{time.time_ns()}"
    child = os.fork()
    if child:
        return child
    log = os.open(f"{stem}.log", os.O_CREAT | os.O_WRONLY)
    os.dup2(log, 1), os.dup2(log, 2)
    command = [*STATISTICAL, "--reseed", str(shift), f"--junitxml={stem}.part", *arguments]
    status = int(pytest.main(command))
    if status <= 1:  # passed or failed
        os.rename(f"{stem}.part", f"{stem}.xml")
    sys.stdout.flush()
    os._exit(status)


def run_all(work: Iterable[tuple[int, Sequence[str]]], folder: Path, processes: int) -> None:
    """Run tests at shifts, some at a time."""
    running: dict[int, int] = {}
    for shift, arguments in itertools.chain(work, [(-1, [])] * processes):
        while len(running) == processes or (shift < 0 and running):
            child, status = os.wait()
            status = os.waitstatus_to_exitcode(status)
            print(f"shift {running.pop(child)}: {'passed' if status == 0 else f'FAILED ({status})'}", flush=True)
        if shift >= 0:
            running[run(shift, arguments, folder)] = shift


def lacking(nodes: dict[str, str], shifts: Sequence[int], folder: Path) -> Iterator[tuple[int, list[str]]]:
    """Shifts, and tests that have no report at them: classes in the order of their seconds per verdict."""
    found, _ = ratios(folder)
    seconds = times(folder)
    classes = defaultdict(list)
    for name in nodes:
        classes[name.partition("::")[0]].append(name)
    cost = {name: sum(seconds.get(test, 1.0) for test in tests) for name, tests in classes.items()}
    group, total = [], 0.0
    for name in [*sorted(classes, key=lambda name: cost[name] / len(classes[name])), None]:
        if name is not None:
            group += classes[name]
            total += cost[name]
        if name is None or total > WORTH_A_FORK:
            for shift in shifts:
                if tests := [nodes[test] for test in group if shift not in found.get(test, ())]:
                    yield shift, tests
            group, total = [], 0.0


def reports(folder: Path) -> Iterator[tuple[int, str, ET.Element]]:
    """Shift, name and result of each test that was run, in the order of time."""
    for report in sorted(folder.glob("*.xml"), key=lambda path: int(path.stem.partition("-")[2])):
        for case in ET.parse(report).getroot().iter("testcase"):
            name = f"{case.get('classname')}::{case.get('name')}".removeprefix("tests.")
            yield int(report.stem.partition("-")[0]), name, case


def times(folder: Path) -> dict[str, float]:
    """Seconds that each test took, the least over the shifts."""
    least: dict[str, float] = {}
    for _, name, case in reports(folder):
        least[name] = min(float(case.get("time", 0)), least.get(name, np.inf))
    return least


def ratios(folder: Path) -> tuple[dict[str, dict[int, list[float]]], dict[str, list[int]]]:
    """Score / bound of all verdicts by test and shift, and the shifts at which tests failed."""
    found: dict[str, dict[int, list[float]]] = defaultdict(dict)
    failed: dict[tuple[str, int], bool] = {}
    for shift, name, case in reports(folder):
        found[name][shift] = [float(p.get("value")) for p in case.iter("property") if p.get("name") == "ratio"]
        failed[name, shift] = case.find("failure") is not None or case.find("error") is not None
    failures = defaultdict(list)
    for name, shift in sorted(key for key, value in failed.items() if value):
        failures[name].append(shift)
    return found, failures


def verdicts(by_shift: dict[int, list[float]]) -> Iterator[tuple[str, float, float]]:
    """For each verdict of a test: whether the distribution is right, the least margin and its distance in sds."""
    for place in range(max(map(len, by_shift.values()))):
        ratio = np.array([values[place] for values in by_shift.values() if len(values) > place])
        wrong = np.median(ratio) > 1
        least, away = (ratio.min(), np.log(ratio)) if wrong else (1 / max(ratio.max(), 1e-300), 1 - ratio)
        yield "wrong" if wrong else "right", least, away.mean() / away.std(ddof=1) if np.ptp(away) else np.inf


def table(found: dict[str, dict[int, list[float]]]) -> Iterator[str]:
    """Lines of a table in Markdown, all cases of a test in one row."""
    grouped = defaultdict(list)
    for name, by_shift in found.items():
        grouped[name.partition("[")[0]].append(by_shift)
    yield "| test | shifts | right: least margin | sds | wrong: least margin | sds |\n|---|---|---|---|---|---|"
    for name, cases in sorted(grouped.items()):
        targets = defaultdict(list)
        for target, least, sds in (verdict for by_shift in cases for verdict in verdicts(by_shift)):
            targets[target].append((least, sds))
        cells = [
            f"{min(least for least, _ in targets[target]):.2f} | {min(sds for _, sds in targets[target]):.1f}"
            if targets[target]
            else " | "
            for target in ("right", "wrong")
        ]
        yield f"| {name} | {min(map(len, cases))} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shifts", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--lacking", action="store_true")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=ROOT / ".make" / "margins")
    given, arguments = parser.parse_known_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    if shifts := range(given.first, given.first + given.shifts):
        nodes = collect(arguments)
        work = lacking(nodes, shifts, folder) if given.lacking else ((shift, arguments) for shift in shifts)
        run_all(work, folder, given.processes)

    found, failures = ratios(folder)
    print(*table(found), sep="\n")
    for name, shifts in failures.items():
        print(f"FAILED {name} at shifts {shifts}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
