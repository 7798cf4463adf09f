#!/usr/bin/env python3
"""Run the statistical tests with shifted seeds, and print by how much each verdict holds.

    python tests/tools/margins.py [--shifts 20] [--first 0] [--folder .make/margins] [pytest's arguments ...]

A verdict's margin is bound / score where the right law has to pass, score / bound where a wrong one has to be rejected:
the table has the least over the shifts and the cases of a test, which must be above 1. `sds` says how far the mean of
score / bound, for a wrong law of its logarithm, is from where the verdict would turn, in its standard deviations over
the shifts. Reports stay in the folder and count in later tables, the latest of a test and a shift alone; `--shifts 0`
prints the table again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-P", "-m", "pytest", "-m", "statistical", "-q"]


def run(shift: int, arguments: list[str], folder: Path) -> None:
    """Run the tests at one shift; their report is a file in the folder."""
    report = folder / f"{shift}-{time.time_ns()}.xml"
    command = [*COMMAND, "--reseed", str(shift), f"--junitxml={report}", *arguments]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    if done.returncode > 1:  # neither passed nor failed
        sys.exit(done.returncode)
    print(f"shift {shift}: {'passed' if done.returncode == 0 else 'FAILED'}", flush=True)


def ratios(folder: Path) -> tuple[dict[str, dict[int, list[float]]], dict[str, list[int]]]:
    """Score / bound of all verdicts by test and shift, and the shifts at which tests failed."""
    found: dict[str, dict[int, list[float]]] = defaultdict(dict)
    failed: dict[tuple[str, int], bool] = {}
    for report in sorted(folder.glob("*.xml"), key=lambda path: int(path.stem.partition("-")[2])):
        shift = int(report.stem.partition("-")[0])
        for case in ET.parse(report).getroot().iter("testcase"):
            name = f"{case.get('classname')}::{case.get('name')}".removeprefix("tests.")
            found[name][shift] = [float(p.get("value")) for p in case.iter("property") if p.get("name") == "ratio"]
            failed[name, shift] = case.find("failure") is not None or case.find("error") is not None
    failures = defaultdict(list)
    for name, shift in sorted(key for key, value in failed.items() if value):
        failures[name].append(shift)
    return found, failures


def verdicts(by_shift: dict[int, list[float]]) -> Iterator[tuple[str, float, float]]:
    """Of each verdict of a test: the law that it is about, its least margin and its distance in sds."""
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
        laws = defaultdict(list)
        for law, least, sds in (verdict for by_shift in cases for verdict in verdicts(by_shift)):
            laws[law].append((least, sds))
        cells = [
            f"{min(least for least, _ in laws[law]):.2f} | {min(sds for _, sds in laws[law]):.1f}"
            if laws[law]
            else " | "
            for law in ("right", "wrong")
        ]
        yield f"| {name} | {min(map(len, cases))} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shifts", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=ROOT / ".make" / "margins")
    given, arguments = parser.parse_known_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for shift in range(given.first, given.first + given.shifts):
        run(shift, arguments, folder)

    found, failures = ratios(folder)
    print(*table(found), sep="\n")
    for name, shifts in failures.items():
        print(f"FAILED {name} at shifts {shifts}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
