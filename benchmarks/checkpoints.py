"""Runs that are killed and resumed: kill -9 on the heat problem, cost of checkpoints, memory.

    python benchmarks/checkpoints.py [--kills N] [--seed N] [--memory]

A run on the heat problem with two modes (fine and coarse mesh, two temperatures) is killed by SIGKILL at random times,
start-up and resuming included, and resumed each time. In the end its draws are compared, bit for bit, with those of an
uninterrupted run, and the files in the directory are checked. Then the time of checkpoints is measured, and, with
``--memory``, the memory of runs of a million draws of 8 parameters.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import invsamp as iv
from invsamp.problems import heat_source
from invsamp.resuming import resume
from invsamp.storage.manifest import NAME as MANIFEST
from invsamp.storage.state import NAME as STATE
from invsamp.storage.state import read_state

SAMPLER = iv.samplers.fast_resgld(temperatures=(1.0, 6.0))
CHAINS, WARMUP = 4, 2000
#: Files that the directory of a finished run may have.
FILES = {MANIFEST, STATE, "problem.nc", "posterior.pickle"}


class Killed(NamedTuple):
    """Outcome of a run that was killed repeatedly."""

    early: int  # kills before the first checkpoint
    warming: int  # kills in warm-up
    drawing: int  # kills after it
    draws: int  # of each chain, in the end
    equal: bool
    strays: list[str]


def killed_run(folder: Path, draws: int, kills: int, longest: float, seed: int, segment: int = 100) -> Killed:
    """Kill a run at random times, resume it each time, and compare it with an uninterrupted one.

    Parameters
    ----------
    folder : Path
        New folder for the run.
    draws : int
        Draws of each chain. If the run ends before its last kill, as many more are requested.
    kills : int
        Number of kills.
    longest : float
        Upper bound of the seconds between start and kill of a process, without those of resuming;
        uniformly distributed.
    seed : int
        Seed of the times.
    segment : int
        Draws per segment.
    """
    posterior = heat_source.two_modes()
    settings: dict[str, Any] = {"warmup": WARMUP, "chains": CHAINS, "seed": 11, "progress": False}
    # compile and load here, so that the forked processes do not
    with tempfile.TemporaryDirectory() as other:
        iv.sample(posterior, SAMPLER, **settings, draws=5, directory=Path(other) / "run")
        begin = time.perf_counter()
        resume(Path(other) / "run", draws=6, progress=False)
        longest += time.perf_counter() - begin  # otherwise, on a slow machine, all would be killed during start-up

    def life() -> None:
        if _step(folder) >= 0:
            resume(folder, draws=draws, progress=False)
        else:
            iv.sample(posterior, SAMPLER, **settings, draws=draws, directory=folder, segment=segment)

    rng = np.random.default_rng(seed)
    seen: list[int] = []
    while len(seen) < kills:
        step = _life_and_death(life, folder, float(rng.uniform(0.0, longest)))
        if step is None:
            draws += draws
        else:
            seen.append(step)
    life()
    run, steps = iv.load(folder), np.array(seen)
    whole = iv.sample(posterior, SAMPLER, **settings, draws=draws)
    equal = all(np.array_equal(run.rung_theta(k), whole.rung_theta(k)) for k in range(2)) and np.array_equal(
        run.data.sample_stats["energy"], whole.data.sample_stats["energy"]
    )
    named = {entry.name for entry in read_state(folder)[0].segments}
    strays = sorted(set(os.listdir(folder)) - FILES - named)
    counts = (np.sum(steps < 0), np.sum((steps >= 0) & (steps < WARMUP)), np.sum(steps >= WARMUP))
    return Killed(*map(int, counts), draws, equal, strays)


def _life_and_death(life: Any, folder: Path, seconds: float) -> int | None:
    """Step of the last checkpoint of a process that was killed after so many seconds; None if it ended by itself."""
    before = _step(folder)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            warnings.simplefilter("ignore")
            life()
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            if status:
                raise RuntimeError("a run failed before it was killed")
            return None
        time.sleep(min(0.002, max(0.0, deadline - time.monotonic())))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    after = _step(folder)
    assert after >= before, f"a checkpoint was lost: step {after} after step {before}"
    if after > WARMUP:
        iv.load(folder)  # readable at any time
    return after


def _step(folder: Path) -> int:
    return read_state(folder)[0].step if (folder / STATE).exists() else -1


def cost_of_checkpoints(repeats: int = 5) -> dict[str, float]:
    """Median times in milliseconds: of a run of 2000 draws in memory, in a directory, and of one checkpoint."""
    from invsamp.storage.directory import RunDirectory

    posterior = heat_source.two_modes()
    spent: list[float] = []
    real = RunDirectory.checkpoint

    def timed(self: RunDirectory, *args: Any, **kwargs: Any) -> None:
        begin = time.perf_counter()
        real(self, *args, **kwargs)
        spent.append(time.perf_counter() - begin)

    found: dict[str, list[float]] = {"memory": [], "directory": []}
    RunDirectory.checkpoint = timed  # type: ignore[method-assign]
    try:
        for repeat in range(repeats):
            settings: dict[str, Any] = {"draws": 2000, "warmup": WARMUP, "chains": CHAINS, "seed": repeat}
            with tempfile.TemporaryDirectory() as folder:
                for name, where in (("memory", None), ("directory", Path(folder) / "run")):
                    begin = time.process_time()
                    iv.sample(posterior, SAMPLER, **settings, progress=False, directory=where)
                    found[name].append(time.process_time() - begin)
    finally:
        RunDirectory.checkpoint = real  # type: ignore[method-assign]
    return {name: 1e3 * statistics.median(times) for name, times in found.items()} | {
        "checkpoint": 1e3 * statistics.median(spent)
    }


MEMORY = """
import resource, sys, warnings
import numpy as np
import invsamp as iv
def peak():
    try:  # ru_maxrss would count what the parent held when it started this process
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)
def identity(theta):
    return theta
def slope(theta):
    return np.broadcast_to(np.eye(8), (len(theta), 8, 8))
warnings.simplefilter("ignore")
imported = peak()
prior = iv.Prior(a=iv.Normal(0, 1, shape=8))
posterior = iv.Posterior(prior, iv.with_jacobian(identity, slope), np.zeros(8), iv.GaussianNoise(1.0))
draws, chains = int(sys.argv[2]), int(sys.argv[3])
run = iv.sample(posterior, iv.mala(), draws=draws, warmup=500, chains=chains, seed=1, progress=False,
                directory=sys.argv[1])
print(imported, peak(), run.report["draws"] * chains)
"""


def memory(draws: int, chains: int) -> tuple[float, float, int]:
    """Peak memory in MB after the imports, and of a run of 8 parameters with thinning 1; the draws that it made."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", MEMORY, str(Path(folder) / "run"), str(draws), str(chains)]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    imported, peak, made = done.stdout.split()
    return float(imported), float(peak), int(made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--draws", type=int, default=3000)
    parser.add_argument("--longest", type=float, default=1.5, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        found = killed_run(Path(folder) / "run", arguments.draws, arguments.kills, arguments.longest, arguments.seed)
        seconds = time.perf_counter() - begin
    print(
        f"{arguments.kills} kills in {seconds:.0f} s: {found.early} before the first checkpoint, {found.warming} in "
        f"warm-up, {found.drawing} after it; {found.draws} draws in the end"
    )
    print(f"draws equal to those of an uninterrupted run, bit for bit: {found.equal}; stray files: {found.strays}")
    for name, milliseconds in cost_of_checkpoints().items():
        print(f"{name:>12} {milliseconds:10.1f} ms")
    if arguments.memory:
        for draws, chains in ((1_000_000, 1), (250_000, 4)):
            imported, peak, made = memory(draws, chains)
            print(f"{made:,} draws of {chains} chains: {peak:.0f} MB at the peak, {imported:.0f} MB after the imports")


if __name__ == "__main__":
    main()
