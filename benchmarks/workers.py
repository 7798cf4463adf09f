"""Worker processes for a model of a few milliseconds: speed-up over one process, and time of a step.

    python benchmarks/workers.py [--chains N] [--steps N] [--turns N] [--milliseconds MS] [--workers N]

Chains of MALA on a model with a fixed amount of work for each row: loops that keep a core busy. It takes longer if the
process has to wait for its core. It runs in one process, in worker processes (`iv.parallel.isolated`) and in a
`ProcessPoolExecutor`, in turns, and the draws have to be the same. If the workers cannot share the chains evenly, the
speed-up has an upper bound, which is shown.

A turn is quiet if all other processes took less than 3% of the processors' time (by Linux, to ten milliseconds).
Speed-ups are those of a turn: seconds of one process over those of the others.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
import warnings
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from _busy import Busy, calibrated

import invsamp as iv
from invsamp.protocols import ForwardModel

#: Share of the processors' time that others may take in a turn that counts as quiet.
QUIET = 0.03
PRIOR = iv.Prior(x=iv.Normal(0.0, 1.0), y=iv.Normal(0.0, 1.0))


def seconds(forward: ForwardModel, chains: int, steps: int, **settings: Any) -> tuple[float, bytes]:
    """Seconds of the steps of one run, with its draws."""
    posterior = iv.Posterior(PRIOR, forward, np.zeros(2), iv.GaussianNoise(0.5))
    settings |= {"warmup": 0, "chains": chains, "seed": 1, "progress": False, "check_gradient": False}
    run = iv.sample(posterior, iv.mala(0.2, preconditioner=None), draws=steps, **settings)
    return run.report["seconds"], run.theta.tobytes()


def taken(processes: Iterable[int]) -> tuple[float, float] | None:
    """Busy seconds of all processors, and of these processes; None if the system does not report them."""
    if not Path("/proc/stat").exists():
        return None
    user, nice, system, _, _, interrupts, soft, *_ = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:])
    own = sum(int(Path(f"/proc/{number}/schedstat").read_text().split()[0]) for number in processes)
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK"), 1e-9 * own


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--milliseconds", type=float, default=5.0, help="processor time of a row")
    parser.add_argument("--workers", type=int, default=2)
    settings = parser.parse_args()
    warnings.simplefilter("ignore")  # of few draws
    model = Busy(calibrated(1e-3 * settings.milliseconds), 0.0, 0.0)
    with (
        iv.parallel.isolated(model, workers=settings.workers) as apart,
        ProcessPoolExecutor(settings.workers, get_context("forkserver")) as pool,
    ):
        ways: Mapping[str, tuple[ForwardModel, dict[str, Any]]] = {
            "one process": (model, {}),
            "worker processes": (apart, {}),
            "executor": (model, {"executor": pool}),
        }
        for forward, more in ways.values():  # they start, and compile
            seconds(forward, settings.chains, 5, **more)
        own = [os.getpid(), *(worker._process.pid for worker in apart._pool.workers.values()), *pool._processes]
        found, draws, others = [], set(), []
        for _ in range(settings.turns):
            before, began = taken(own), time.perf_counter()
            results = {
                way: seconds(forward, settings.chains, settings.steps, **more) for way, (forward, more) in ways.items()
            }
            after, took = taken(own), time.perf_counter() - began
            found.append({way: 1e3 * one[0] / settings.steps for way, one in results.items()})
            draws |= {one[1] for one in results.values()}
            if before is not None and after is not None:
                others.append((after[0] - before[0] - after[1] + before[1]) / took / (os.cpu_count() or 1))
    if len(draws) > 1:
        raise SystemExit("the draws depend on the processes")
    cores = len(os.sched_getaffinity(0))
    best = settings.chains / math.ceil(settings.chains / min(settings.workers, cores))
    print(
        f"{settings.chains} chains, {settings.steps} steps, a row keeps a core busy for {settings.milliseconds:g} ms; "
        f"{settings.workers} workers, {cores} cores; at best {best:.2f}"
    )
    quiet = [k for k, share in enumerate(others) if share < QUIET]
    for name, chosen in {"all turns": range(settings.turns), f"{len(quiet)} quiet turns": quiet}.items():
        for way in ways if chosen else ():
            middle = statistics.median(found[k][way] for k in chosen)
            ratios = sorted(found[k]["one process"] / found[k][way] for k in chosen)
            print(
                f"{name:>15s}: {way:16s} {middle:6.2f} ms a step, speed-up {statistics.median(ratios):.2f}"
                f" ({ratios[0]:.2f} to {ratios[-1]:.2f})"
            )
    print("others' share of the processors in each turn: " + ", ".join(f"{share:.1%}" for share in others))


if __name__ == "__main__":
    main()
