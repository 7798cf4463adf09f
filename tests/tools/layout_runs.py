"""Runs whose draws must not depend on the number of processes, and their digests, printed by every rank.

As a script: ``layout_runs.py NAME...`` makes the runs of these names on all ranks; rank 0 prints the digests of each.
``layout_runs.py --directory PATH --signal NUMBER --step STEP --rank RANK NAME`` makes one in a directory, or goes on
with it, until a process gets a signal after a step (if a number is given).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
import warnings

import numpy as np
from bent_line import POSTERIOR
from field_cases import bent_field

import invsamp as iv
from invsamp.engine.driver.engine import Engine
from invsamp.engine.multifidelity import surrogate_training
from invsamp.ladder import GradientNoise
from invsamp.parallel import load_balancing, mpi_coordinator, size
from invsamp.results.run import Run

FOUR, THREE = (1.0, 2.0, 4.0, 8.0), (1.0, 2.0, 4.0)
NOISY = iv.estimators.noisy(0.5, 0.5)
SAMPLERS = {
    "one rung": iv.mala(),
    "minibatch": iv.samplers.sgld(
        0.01, estimator=iv.estimators.minibatch(4), gradient_noise=GradientNoise(structure="full")
    ),
    "momentum": iv.samplers.sghmc(),
    "hmc": iv.hmc(),
    "crank nicolson": iv.pcn(),
    "prior to posterior": iv.ladder.Sampler(
        [
            iv.ladder.Rung(iv.tempering.tempered_likelihood(beta), fidelity, kernel=kernel)
            for beta, fidelity, kernel in (
                (1.0, "fine", iv.kernels.Langevin(adjusted=True)),
                (0.4, "fine", iv.kernels.CrankNicolson()),
                (0.1, "coarse", iv.kernels.Langevin(adjusted=True)),
                (0.0, "coarse", iv.kernels.prior_draws()),
            )
        ],
        iv.ladder.Swap(fraction=0.5),
        "dense",
    ),
    "three fidelities": iv.samplers.parallel_tempering(THREE, swap_fraction=0.5),
    "four rungs": iv.samplers.parallel_tempering(
        FOUR, fidelities=["fine", "fine", "coarse", "coarse"], swap_fraction=0.5
    ),
    "adjacent pairs": iv.samplers.parallel_tempering(
        FOUR, fidelities=["fine"] * 4, scheme=iv.swaps.adjacent(), swap_fraction=0.5
    ),
    "product target": iv.samplers.parallel_tempering(
        THREE, swap=iv.swaps.product_target(), scheme=iv.swaps.seo(), swap_fraction=0.5
    ),
    "windows": iv.samplers.parallel_tempering(
        FOUR, fidelities=["fine"] * 4, scheme=iv.swaps.deo(window=3), swap_fraction=0.5
    ),
    "all pairs": iv.samplers.parallel_tempering(
        FOUR, fidelities=["fine", "fine", "fine", "coarse"], scheme=iv.swaps.all_pairs()
    ),
    "sweeps": iv.samplers.parallel_tempering(FOUR, fidelities=["fine"] * 4, scheme=iv.swaps.sweep(), swap_fraction=0.5),
    "minibatches that swap": iv.resgld(THREE, 0.01, estimator=iv.estimators.minibatch(6), swap_fraction=0.5),
    "control variates": iv.resgld(THREE, 0.01, estimator=iv.estimators.control_variate(6, 7), swap_fraction=0.5),
    "snapshots of energies": iv.samplers.vr_resgld(THREE, 0.01, size=6, refresh=7, adaptive=True, swap_fraction=0.5),
    "one batch for both": iv.samplers.paired_resgld(
        [[0.3, 0.2]], THREE, 0.01, size=6, order="gauss_newton", swap_fraction=0.5
    ),
    "table of terms": iv.samplers.sgld(0.01, estimator=iv.estimators.saga(6)),
    "surrogate exchange": iv.samplers.surrogate_exchange((1.0, 3.0), exchange_interval=3, local_move_interval=2),
    "corrected coarse model": iv.samplers.surrogate_exchange(
        (1.0, 3.0), correct="auto", pairs=10, exchange_interval=3, local_move_interval=2
    ),
    "contour": iv.samplers.contour_exchange(8.0, energy_bins=[8.0, 9.0, 11.0, 14.0], swap_fraction=0.5),
    "interacting contours": iv.samplers.icsgld(0.01, [9.0, 10.0, 12.0]),
    "multi-variance": iv.samplers.multi_variance_resgld(
        THREE, 0.01, estimator=NOISY, fidelities=["fine"] * 3, swap_fraction=0.5
    ),
    "shared pilot": iv.samplers.fast_resgld(
        FOUR,
        0.01,
        estimator=NOISY,
        fidelities=["fine"] * 4,
        variance=iv.variances.kernel_ridge(20, 1.0, 1.0),
        swap_fraction=0.5,
    ),
    "running average": iv.samplers.fast_resgld(
        THREE, estimator=NOISY, fidelities=["fine"] * 3, variance=iv.variances.running_average(), scheme=iv.swaps.seo()
    ),
    "nothing chosen": None,
    "nothing chosen for a field": None,
    "coupled sums": iv.samplers.fast_resgld(
        THREE,
        0.01,
        estimator=[iv.estimators.coupled_sum(), iv.estimators.exact(), iv.estimators.exact()],
        structure="full",
    ),
}
#: Of ladders that warm-up finds, in two rounds.
FOUND = {
    "found": iv.samplers.parallel_tempering(ladder="auto"),
    "found, noisy": iv.resgld(ladder="auto", estimator=NOISY),
}
LENGTH = {"draws": 20, "warmup": 120, "chains": 3, "seed": 7, "progress": False}
#: What two runs cannot share: how long they took, and which processes made them.
OWN = ("seconds", "evaluation_seconds", "versions", "processes")


def digest(run):
    """A digest of all draws and statistics, and one of the report. Of the arrays themselves: without ArviZ."""
    found, source = hashlib.sha256(), run._source
    groups = source.shapes
    for group in ("posterior", "sample_stats", *sorted(g for g in groups if g.startswith("hot"))):
        for name in sorted(groups[group]):
            values = source.read(group, name)
            found.update(f"{group} {name} {values.shape} {values.dtype}".encode())
            found.update(np.ascontiguousarray(values).tobytes())
    report = {name: value for name, value in run.report.items() if name not in OWN}
    return found.hexdigest()[:16], hashlib.sha256(json.dumps(report, sort_keys=True).encode()).hexdigest()[:16]


def hand_out():
    """Cheap as the models are, all processes solve."""
    load_balancing.MESSAGES = -1.0


def quiet():
    """Short runs raise warnings, which are ignored here."""
    warnings.filterwarnings("ignore", category=UserWarning)
    Run.warnings = lambda self: []


def of_all_ranks(item):
    """The items of all ranks, on rank 0; None elsewhere."""
    if size() == 1:
        return [item]
    from mpi4py import MPI

    return MPI.COMM_WORLD.gather(item)


def bcast(item):
    """Rank 0's item."""
    if size() == 1:
        return item
    from mpi4py import MPI

    return MPI.COMM_WORLD.bcast(item)


def signal_at(step, number, rank):
    """Let a process have a signal after a step, and the first one go on when it knows."""
    pids, original = bcast(of_all_ranks(os.getpid())), Engine.step
    mpi_coordinator.BETWEEN_LOOKS = 0.0

    def wrapped(engine, most=1, keep=None):
        original(engine, min(most, step - engine.done) if engine.done < step else most, keep)
        if engine.done == step:
            os.kill(pids[rank], number)
            while rank and engine.signaled() is None:
                time.sleep(0.001)

    Engine.step = wrapped


def run(name, **more):
    """The run of that name."""
    length = LENGTH | ({"warmup": 310} if name in FOUND else {}) | more
    before = surrogate_training.STEPS, surrogate_training.MOST_ROUNDS
    surrogate_training.STEPS, surrogate_training.MOST_ROUNDS = (
        20,
        1,
    )  # of a coarse model only, whose draws are not tested here
    try:
        return iv.sample(bent_field() if "field" in name else POSTERIOR, (SAMPLERS | FOUND)[name], **length)
    finally:
        surrogate_training.STEPS, surrogate_training.MOST_ROUNDS = before


def kept(name, directory):
    """The run of that name in a directory: new, or resumed."""
    if os.path.exists(directory):
        return iv.resume(directory, POSTERIOR, progress=False)
    return run(name, directory=directory, segment=5)


def main():
    import no_arviz  # noqa: F401

    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(SAMPLERS))
    parser.add_argument("--directory")
    for number in ("--signal", "--step", "--rank"):
        parser.add_argument(number, type=int)
    settings = parser.parse_args()
    quiet()
    hand_out()
    if settings.directory is None:
        found = {name: digest(run(name)) for name in settings.names}
    else:
        if settings.signal is not None:
            signal_at(settings.step, settings.signal, settings.rank)
        found = {name: digest(kept(name, settings.directory)) for name in settings.names}
    all_found = of_all_ranks(found)
    if all_found is not None:
        print(json.dumps(all_found), flush=True)


if __name__ == "__main__":
    main()
