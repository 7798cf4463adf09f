#!/usr/bin/env python3
"""Run the statistical tests with shifted seeds, and print by how much each verdict holds.

    python tests/tools/margins.py [--shifts 20] [--first 0] [pytest's arguments: files, -n 2, -k ...]

A verdict's margin is bound / score where the right law has to pass, score / bound where a wrong one has to be rejected:
the least over the shifts, which must be above 1. `sds` says how far the mean of score / bound, for a wrong law of its
logarithm, is from where the verdict would turn, in the standard deviations that it has over the shifts.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]


def ratios(shift: int, arguments: list[str]) -> tuple[dict[tuple[str, int], float], list[str]]:
    """Score / bound of every verdict, by test and place in it, and the tests that failed, at one shift."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-P", "-m", "pytest", "-m", "statistical", "-q", "--reseed", str(shift)]
        done = subprocess.run([*command, f"--junitxml={report}", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL)
        if done.returncode > 1:  # neither passed nor failed
            sys.exit(done.returncode)
        cases = ET.parse(report).getroot().iter("testcase")
        found, failed = {}, []
        for case in cases:
            name = f"{case.get('classname')}::{case.get('name')}".removeprefix("tests.")
            values = [float(p.get("value")) for p in case.iter("property") if p.get("name") == "ratio"]
            found |= {(name, place): value for place, value in enumerate(values)}
            if case.find("failure") is not None or case.find("error") is not None:
                failed.append(name)
        return found, failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shifts", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    given, arguments = parser.parse_known_args()
    table, failures = defaultdict(list), defaultdict(list)
    for shift in range(given.first, given.first + given.shifts):
        found, failed = ratios(shift, arguments)
        for key, value in found.items():
            table[key].append(value)
        for name in failed:
            failures[name].append(shift)
        print(f"shift {shift}: {len(found)} verdicts, failed: {', '.join(failed) or 'none'}", flush=True)

    print(f"\n{'test':90s} {'verdict':8s} least margin   sds")
    for (name, place), values in table.items():
        ratio = np.array(values)
        wrong = np.median(ratio) > 1
        least, away = (ratio.min(), np.log(ratio)) if wrong else (1 / ratio.max(), 1 - ratio)
        sds = away.mean() / away.std(ddof=1) if np.ptp(away) else np.inf
        kind = "wrong" if wrong else "right"
        print(f"{name[-86:] + f' [{place}]':90s} {kind:8s} {least:12.2f} {sds:5.1f}")
    for name, shifts in failures.items():
        print(f"FAILED {name} at shifts {shifts}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
