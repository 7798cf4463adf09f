"""What a network, and what the affine map of `iv.correct`, leave of a coarse model's error, on pairs not seen.

    python benchmarks/network_surrogate.py [--pairs N] [--seeds N]

Pairs of solves at draws of the coarse posterior: N to learn from, 200 to judge by. Told: the sd of the difference of
the fine energy and the coarse one as it is, with the affine map, with a network for what the coarse model lacks
(`invsamp.torch.network_model`), with both; and the share of independent draws that importance weights leave,
E(w)^2 / E(w^2). Heat source: 2 unknowns, 2 data. Conductivity: 20 unknowns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import invsamp as iv
from invsamp.problems import conductivity, heat_source
from invsamp.torch import network_model

JUDGED = 200
PROBLEMS: dict[str, tuple[Callable[[], iv.Posterior], str, str]] = {
    "heat source": (heat_source.two_modes, "coarse", "fine"),
    "conductivity": (lambda: conductivity.posterior({"coarse": 16, "fine": 64}), "coarse", "fine"),
}


def draws(posterior: iv.Posterior, coarse: str, n: int, seed: int) -> np.ndarray:
    """Theta (n, p) of the coarse posterior, in no order."""
    sampler = iv.relangevin((1.0, 3.0, 9.0), fidelities=[coarse] * 3)
    run = iv.sample(posterior, sampler, draws=400, warmup=600, thin=2, seed=seed, progress=False)
    found = run.theta.reshape(-1, posterior.dimension)
    return found[np.random.default_rng(seed).choice(len(found), n, replace=False)]


def judged(posterior: iv.Posterior, coarse: str, states: np.ndarray, fine: np.ndarray) -> tuple[float, float]:
    """Sd of the energies' difference, and the share of independent draws that weights leave."""
    missed = posterior.potential(coarse).energy(posterior.to_position(states)) - fine
    weights = np.exp(missed - missed.max())
    return float(missed.std()), float(weights.mean() ** 2 / (weights**2).mean())


def compared(name: str, pairs: int, seed: int) -> dict[str, tuple[float, float]]:
    make, coarse, fine = PROBLEMS[name]
    posterior = make()
    states = draws(posterior, coarse, pairs + JUDGED, seed)
    learnt, kept = states[:pairs], states[pairs:]
    energies = posterior.potential(fine).energy(posterior.to_position(kept))
    model = network_model(posterior.forward[coarse], seed=seed).fit(learnt, posterior.forward[fine](learnt))
    with_network = iv.Posterior(
        posterior.prior, {coarse: model, fine: posterior.forward[fine]}, posterior.data, posterior.noise
    )
    contestants = {
        "as it is": posterior,
        "affine map": iv.correct(posterior, learnt).posterior,
        "network": with_network,
        "affine map over network": iv.correct(with_network, learnt).posterior,
    }
    return {key: judged(one, coarse, kept, energies) for key, one in contestants.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--problem", choices=PROBLEMS, help="one of them alone")
    settings = parser.parse_args()
    for name in PROBLEMS if settings.problem is None else [settings.problem]:
        begin = time.process_time()
        runs = [compared(name, settings.pairs, seed) for seed in range(1, settings.seeds + 1)]
        print(f"{name}, {settings.pairs} pairs, {settings.seeds} seeds, {time.process_time() - begin:.0f} s")
        for key in runs[0]:
            sd, share = np.array([one[key] for one in runs]).T
            told = ", ".join(f"{value:.3f}" for value in sd), ", ".join(f"{value:.2f}" for value in share)
            print(f"  {key:26s} sd {told[0]}; share {told[1]}", flush=True)


if __name__ == "__main__":
    main()
