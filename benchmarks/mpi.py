"""A ladder of four rungs on 1, 2 and more processes: wall time, waiting, and the cost of swaps besides their solves.

    python benchmarks/mpi.py [--ranks 1 2 4] [--draws N] [--repeats N] [--fine SECONDS] [--ratio R] [--chains N]
                             [--sleep] [--exchange]

Needs mpi4py and the mpiexec that belongs to it. A solve is a loop that keeps one core busy for the given time, for each
chain; one of the cold rung takes --ratio times as long as those of the others. With --sleep it sleeps for that time:
then the processes share nothing, as if each had its own core. With --exchange chains move on a coarse model that
warm-up corrects (`iv.samplers.surrogate_exchange`), at no cost; the fine solves of all chains and of the pairs are
shared. If the draws depend on the number of processes, the script ends with an error.

Columns:

- seconds of the run, median of the repeats;
- processor seconds of the busiest process, which are also valid on a busy machine if waiting is short;
- speed-up over one process by these two;
- the best possible speed-up on the available cores, from the time that one process spends on solves: all of it is
  shared evenly, except that the cold rung is split by whole chains;
- share of its time that each process waited for others.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from _busy import Busy, calibrated

import invsamp as iv

TEMPERATURES = (1.0, 2.0, 4.0, 8.0)
FIDELITIES = ("fine", "coarse", "coarse", "coarse")
#: Settings with which Open MPI starts more processes than cores.
OVERSUBSCRIBE = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}


def work(loops: int, seconds: float, ratio: float, draws: int, chains: int, exchange: bool) -> None:
    """Run on all processes that there are; rank 0 prints the results."""
    cheap = (0, 0.0) if exchange else (round(loops / ratio), seconds / ratio)
    forward = {"coarse": Busy(*cheap, 0.1), "fine": Busy(loops, seconds, 0.0)}
    prior = iv.Prior(x=iv.Normal(0.0, 1.0), y=iv.Normal(0.0, 1.0))
    posterior = iv.Posterior(prior, forward, np.zeros(2), iv.GaussianNoise(0.5))
    at_once = posterior.with_forward({name: replace(model, loops=1, seconds=0.0) for name, model in forward.items()})
    sampler, warmup = iv.samplers.parallel_tempering(TEMPERATURES, (0.2, 0.3, 0.4, 0.4), fidelities=FIDELITIES), 0
    if exchange:
        sampler, warmup = iv.samplers.surrogate_exchange(correct="offset", pairs=100, exchange_interval=1), 100
    # ten solves before the first step are not measured
    settings = {"warmup": warmup, "chains": chains, "seed": 1, "progress": False, "check_gradient": False}
    iv.sample(at_once, sampler, draws=2, **settings)  # compiles
    began = time.process_time()
    run = iv.sample(posterior, sampler, draws=draws, **settings)
    took = run.report["seconds"]  # from the first solve to the last step
    busy = _gathered(time.process_time() - began)
    if busy is not None:
        drawn = np.ascontiguousarray(run.data.posterior.to_array().values)
        results = {
            "seconds": took,
            "busy": busy,
            "waiting": run.report["processes"].get("waiting", [0.0]),
            "solving": run.report["evaluation_seconds"],
            "draws": hashlib.sha256(drawn.tobytes()).hexdigest(),
        }
        print(json.dumps(results), flush=True)


def _gathered(item: Any) -> list[Any] | None:
    if iv.parallel.size() == 1:
        return [item]
    from mpi4py import MPI

    found: list[Any] | None = MPI.COMM_WORLD.gather(item)
    return found


def started(ranks: int, arguments: Sequence[object]) -> dict[str, Any]:
    """The results that `work` printed on so many processes."""
    command = [sys.executable, __file__, "--work", *arguments]
    if ranks > 1:
        beside = Path(sys.executable).parent / "mpiexec"
        launcher = str(beside) if beside.exists() else shutil.which("mpiexec")
        if launcher is None:
            raise SystemExit("no mpiexec found: install an MPI library and mpi4py for it")
        command[1:1] = ["-m", "mpi4py"]
        command[:0] = [launcher, "-n", ranks]
    environment = os.environ | OVERSUBSCRIBE | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run([*map(str, command)], env=environment, capture_output=True, text=True, timeout=600)
    if ended.returncode:
        raise SystemExit(f"{ranks} processes failed:\n{ended.stdout}{ended.stderr}")
    results: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--fine", type=float, default=5e-3, help="seconds of a fine solve, for one chain")
    parser.add_argument("--ratio", type=float, default=10.0, help="cost of a fine solve over that of a coarse one")
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--sleep", action="store_true", help="solves sleep, as if each process had its own core")
    parser.add_argument("--exchange", action="store_true", help="chains move on a corrected coarse model")
    parser.add_argument("--work", type=int, metavar="LOOPS", help=argparse.SUPPRESS)
    settings = parser.parse_args()
    if settings.work is not None:
        sleep = settings.fine if settings.sleep else 0.0
        work(settings.work, sleep, settings.ratio, settings.draws, settings.chains, settings.exchange)
        return
    if find_spec("mpi4py") is None:
        print("needs mpi4py, and the mpiexec that belongs to it")
        return
    loops = 0 if settings.sleep else calibrated(settings.fine)
    cores = max(settings.ranks) if settings.sleep else len(os.sched_getaffinity(0))
    coarse = 0.0 if settings.exchange else settings.fine / settings.ratio
    print(
        f"{'an exchange' if settings.exchange else '4 rungs'}, {settings.chains} chains, {settings.draws} "
        f"{'draws' if settings.exchange else 'steps'}; a fine solve takes {1e3 * settings.fine:g} ms, a "
        f"coarse one {1e3 * coarse:g} ms; " + ("solves sleep" if settings.sleep else f"{cores} cores")
    )
    arguments = [loops, *sys.argv[1:]]
    # in turns, so that other load affects all alike
    repeats = [{ranks: started(ranks, arguments) for ranks in settings.ranks} for _ in range(settings.repeats)]
    if len({result["draws"] for results in repeats for result in results.values()}) > 1:
        raise SystemExit("the draws depend on the number of processes")
    first = [results[settings.ranks[0]] for results in repeats]
    alone, alone_busy = _seconds(first)
    solving = {name: statistics.median(result["solving"][name] for result in first) for name in first[0]["solving"]}
    heads = f"{'seconds':>7s} {'busiest':>7s} {'speed-up':>11s} {'at best':>7s}"
    print(f"{'processes':>9s} {heads}  waiting")
    for ranks in settings.ranks:
        results = [result[ranks] for result in repeats]
        seconds, busy = _seconds(results)
        middle = min(results, key=lambda result: abs(result["seconds"] - seconds))
        waiting = ", ".join(f"{share:.0%}" for share in middle["waiting"])
        best = alone / (alone - sum(solving.values()) + _shared(solving, min(ranks, cores), settings.chains))
        figures = f"{seconds:7.2f} {busy:7.2f} {alone / seconds:5.2f} {alone_busy / busy:5.2f} {best:7.2f}"
        print(f"{ranks:9d} {figures}  {waiting}")


def _shared(solving: dict[str, float], workers: int, chains: int) -> float:
    """Least seconds of the solves on so many cores: one of them solves a chain of the cold rung."""
    return max(sum(solving.values()) / workers, solving["fine"] * math.ceil(chains / workers) / chains)


def _seconds(results: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Medians of the wall time, and of the processor time of the busiest process."""
    busiest = [max(result["busy"]) for result in results]
    return statistics.median(result["seconds"] for result in results), statistics.median(busiest)


if __name__ == "__main__":
    main()
