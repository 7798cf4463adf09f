"""Remaining error of a corrected coarse model on unseen pairs, and its effect on fine solves per effective draw.

    python benchmarks/surrogates.py [--pairs N] [--seeds N...] [--only PROBLEM] [--sample]

Compared are the coarse model itself, with the affine map of `iv.correct`, with the automatic choice, and with a
polynomial, a Gaussian process or a network for its error. Pairs of solves are at draws of the coarse posterior: N for
training, 200 for testing. Reported are the sd of the fine energy minus the surrogate's, and the relative ESS of
importance weights, E(w)^2 / E(w^2). With ``--sample`` follow all fine solves per effective draw of
`iv.samplers.surrogate_exchange`, which learns the correction in warm-up. The ESS is the least over all unknowns, for
the heat source that of the mode. Heat source: 2 unknowns. Conductivity: 20.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import invsamp as iv
from invsamp.diagnostics import ess
from invsamp.problems import conductivity, heat_source
from invsamp.protocols import Array
from invsamp.torch import network_model

JUDGED = 200


class Problem(NamedTuple):
    posterior: Callable[[], iv.Posterior]
    sampler: iv.ladder.Sampler
    chains: int
    draws: int
    of: Callable[[Array], Array]  # quantity whose ESS is reported


PROBLEMS = {
    "heat source": Problem(
        heat_source.two_modes,
        iv.samplers.surrogate_exchange((1.0, 3.0, 9.0, 27.0), correct="auto", exchange_interval=20),
        24,
        125,
        lambda theta: heat_source.is_upper(theta).astype(float),
    ),
    "conductivity": Problem(
        lambda: conductivity.posterior({"coarse": 16, "fine": 64}),
        iv.samplers.surrogate_exchange(correct="auto", exchange_interval=10),
        8,
        125,
        lambda theta: theta,
    ),
}
#: Corrections of a coarse model, not yet fitted; None: no correction.
SURROGATES: dict[str, Callable[[Any], Any] | None] = {
    "coarse model itself": None,
    "affine map": None,
    "automatic choice": None,
    "polynomial of degree 2": lambda coarse: iv.surrogates.polynomial_model(coarse, degree=2),
    "polynomial of degree 4": lambda coarse: iv.surrogates.polynomial_model(coarse, degree=4),
    "Gaussian process": iv.surrogates.gaussian_process_model,
    "network": network_model,
}


def draws(posterior: iv.Posterior, n: int, seed: int) -> Array:
    """Theta (n, p) of the coarse posterior, in random order."""
    sampler = iv.samplers.parallel_tempering((1.0, 3.0, 9.0), fidelities=["coarse"] * 3)
    run = iv.sample(posterior, sampler, draws=400, warmup=600, thin=2, seed=seed, progress=False)
    found = run.theta.reshape(-1, posterior.dimension)
    return found[np.random.default_rng(seed).choice(len(found), n, replace=False)]


def judged(posterior: iv.Posterior, states: Array, fine: Array) -> tuple[float, float]:
    """Sd of the energies' difference, and relative ESS of the weights."""
    missed = posterior.potential("coarse").energy(posterior.to_position(states)) - fine
    weights = np.exp(missed - missed.max())
    return float(missed.std()), float(weights.mean() ** 2 / (weights**2).mean())


def with_coarse(posterior: iv.Posterior, model: Any) -> iv.Posterior:
    return posterior.with_forward({"coarse": model, "fine": posterior.forward["fine"]})


def sampled(problem: Problem, posterior: iv.Posterior, kind: str, seed: int) -> float:
    """Fine solves per effective draw."""
    correct = {"affine map": "affine", "automatic choice": "auto"}.get(kind, "none")
    sampler = replace(problem.sampler, correct=correct)
    run = iv.sample(posterior, sampler, draws=problem.draws, chains=problem.chains, seed=seed, progress=False)
    return float(run.report["evaluations"]["fine"] / ess(problem.of(run.theta)).min())


def too_many(kind: str, posterior: iv.Posterior) -> bool:
    """Whether the polynomial of degree 4 has too many terms."""
    return kind.endswith("4") and posterior.dimension > 5


def compared(name: str, pairs: int, seed: int, sample: bool) -> dict[str, tuple[float, float, float]]:
    problem = PROBLEMS[name]
    posterior = problem.posterior()
    states = draws(posterior, pairs + JUDGED, seed)
    learned, kept = states[:pairs], states[pairs:]
    fine = posterior.forward["fine"](learned)
    energies = posterior.potential("fine").energy(posterior.to_position(kept))
    found = {}
    for kind, surrogate in SURROGATES.items():
        if too_many(kind, posterior):
            continue
        fitted = asked = posterior
        if surrogate is not None:
            asked = with_coarse(posterior, surrogate(posterior.forward["coarse"]))
            fitted = with_coarse(posterior, asked.forward["coarse"].fit(learned, fine))
        if kind in ("affine map", "automatic choice"):
            fitted = iv.correct(posterior, learned, "affine" if kind == "affine map" else "auto").posterior
        each = sampled(problem, asked, kind, seed) if sample else np.nan
        found[kind] = *judged(fitted, kept, energies), each
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", choices=PROBLEMS)
    parser.add_argument("--sample", action="store_true", help="fine solves per effective draw, too")
    settings = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    for name in PROBLEMS if settings.only is None else [settings.only]:
        begin = time.process_time()
        runs = [compared(name, settings.pairs, seed, settings.sample) for seed in settings.seeds]
        print(f"{name}, {settings.pairs} pairs, seeds {settings.seeds}, {time.process_time() - begin:.0f} s")
        print("| surrogate | sd | share | fine solves per effective draw |\n|---|---|---|---|")
        for kind in runs[0]:
            figures = zip(*[run[kind] for run in runs], strict=True)
            sd, share, each = (", ".join(f"{value:.3g}" for value in row if not np.isnan(value)) for row in figures)
            print(f"| {kind} | {sd} | {share} | {each} |", flush=True)


if __name__ == "__main__":
    main()
