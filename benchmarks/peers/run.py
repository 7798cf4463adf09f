"""One toolkit on the problems of `make peers`, in its own environment: a line of JSON for each problem and seed.

    python benchmarks/peers/run.py TOOLKIT [--problems NAME ...] [--seeds 1 2 3] [--short]
    python benchmarks/peers/run.py reference [--problems NAME ...]

Runs that are in results.jsonl are not repeated. Seconds are those of one processor until the draws, without imports and
compilation of the problem's model. A run that has no draws after `LIMIT` of them ends, and is kept as "unfinished".
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is imported
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import platform
import signal
import sys
import time
import tomllib
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import reference_draws
from _problems import CASES, HERE, REFERENCES, Density, Unfinished, exact, judged, moments, references
from _samplers import PACKAGES, SAMPLERS, SETTINGS, silent

RESULTS = HERE / "results.jsonl"
REFERENCE_SEED = 1
#: Of each of 16 chains of a reference (`reference_draws`).
TRAJECTORIES = {"fitzhugh_nagumo": 4000, "conductivity": 2000, "poisson64": 450}
#: Seconds of a processor for a run: ten times and more what most take.
LIMIT = 240.0
VERSION = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text())["project"]["version"]


def _give_up(*_: object) -> None:
    raise Unfinished


def one(toolkit: str, name: str, seed: int, short: bool = False) -> dict[str, Any]:
    """Sample, and compare with the reference."""
    posterior = CASES[name].make()
    start = posterior.sample_start(np.random.default_rng(0), 4)
    posterior.potential().energy_and_gradient(start)  # compiled
    settings = SETTINGS[toolkit, name]
    if short:
        settings = {
            key: max(value // 50, 10) if key in ("steps", "draws", "warmup") else value
            for key, value in settings.items()
        }
    record = {
        "toolkit": toolkit,
        "problem": name,
        "seed": seed,
        "settings": settings,
        "version": VERSION if toolkit == "invsamp" else metadata.version(PACKAGES.get(toolkit, toolkit)),
        "date": date.today().isoformat(),
        "machine": machine(),
    }
    began = time.process_time()
    Density.until = began + LIMIT
    signal.signal(signal.SIGPROF, _give_up)  # for toolkits that call the model themselves
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        with silent():
            position, counts = SAMPLERS[toolkit](name, posterior, seed, **settings)
    except (Unfinished, RuntimeError) as error:  # as which JAX raises it
        if isinstance(error, RuntimeError) and time.process_time() < Density.until:
            raise
        return record | {"unfinished": LIMIT, "solves": Density.latest.solves}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    seconds = time.process_time() - began
    theta = posterior.to_theta(position.reshape(-1, posterior.dimension)).reshape(position.shape)
    return record | {
        **judged(name, posterior, theta),
        **{key: float(value) for key, value in counts.items()},
        "seconds": seconds,
    }


def machine() -> str:
    """The processor's name: seconds are comparable on one kind only."""
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    return names[0].split(":")[1].strip() if names else platform.machine()


def reference(name: str) -> dict[str, Any]:
    """Moments that errors are measured against."""
    if name in ("hare_lynx", "heat_modes"):
        return exact(name)
    posterior = CASES[name].make()
    case = reference_draws.Case(name, posterior.potential())
    position = reference_draws.reference(case, TRAJECTORIES[name], REFERENCE_SEED)
    flat = position.reshape(-1, posterior.dimension)
    energy = posterior.potential().energy(flat[:: max(1, len(flat) // 400)])
    return moments(posterior.to_theta(flat).reshape(position.shape), energy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("toolkit", choices=[*SAMPLERS, "reference"])
    parser.add_argument("--problems", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--short", action="store_true", help="a few draws of each, which are not stored, as a check")
    parsed = parser.parse_args()
    if parsed.toolkit == "reference":
        for name in parsed.problems:
            found = references() if REFERENCES.exists() else {}
            if name not in found:
                REFERENCES.write_text(json.dumps(found | {name: reference(name)}, indent=1) + "\n")
                print(f"reference of {name}", flush=True)
        return
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    done = {(line["toolkit"], line["problem"], line["seed"]) for line in lines}
    for seed in parsed.seeds[: 1 if parsed.short else None]:
        for name in parsed.problems:
            key = (parsed.toolkit, name, seed)
            if (parsed.toolkit, name) not in SETTINGS or (key in done and not parsed.short):
                continue
            record = one(*key, short=parsed.short)
            if not parsed.short:
                with RESULTS.open("a") as file:
                    file.write(json.dumps(record) + "\n")
            if "unfinished" in record:
                print(
                    f"{parsed.toolkit} {name} seed {seed}: no draws after {record['unfinished']:.0f} s and "
                    f"{record['solves']} solves",
                    flush=True,
                )
                continue
            print(
                f"{parsed.toolkit} {name} seed {seed}: {record['ess']:.0f} effective draws of {record['solves']:.0f} "
                f"solves, {record['seconds']:.1f} s, means off {record['mean_error']:.2f}, false {record['false']:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
