"""Three posteriors by plain Hamiltonian Monte Carlo, to compare the examples' draws with.

    python benchmarks/reference_draws.py conductivity [--against figures/conductivity/summary.json ...]
    python benchmarks/reference_draws.py poisson64 [--trajectories 450] [--seed 1] [--against ...]

The textbook's algorithm, without the package's kernels, engine or warm-up: new momenta, trajectories of random length,
Metropolis acceptance at their ends. It shares only the posterior's energy and gradient. With summaries of the example:
z of each mean and sd by both Monte Carlo errors.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is imported

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from invsamp import diagnostics
from invsamp.problems import conductivity, fitzhugh_nagumo, poisson64
from invsamp.protocols import Array, Potential

NAMES = ("conductivity", "fitzhugh_nagumo", "poisson64")
CHAINS = 16
#: Trajectories of the windows, after each of which the mass matrix is estimated anew, and their numbers of steps.
WINDOWS, SHORT = (60, 60, 100), (5, 15)
#: Leapfrog step in coordinates of unit variance.
STEP = 0.22


class Case:
    """A posterior, the names of its unknowns in the example's summary, least and most steps, and starting points.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    potential : Potential, optional
        Potential of the posterior on other meshes. Default: that of the example.
    """

    def __init__(self, name: str, potential: Potential | None = None) -> None:
        self.group, self.steps, self.guess = "z", (6, 16), np.zeros(0)
        if name == "conductivity":
            own: Potential = conductivity.posterior({"fine": 64}).potential()
        elif name == "fitzhugh_nagumo":
            nerve = fitzhugh_nagumo.nerve()
            own, self.group = nerve.potential(), "theta"
            self.guess = nerve.to_position(np.array([list(fitzhugh_nagumo.TRUTH.values())]))[0]
        else:
            own, self.group, self.steps = poisson64.posterior().potential(), "log_a", (10, 40)
        self.potential = own if potential is None else potential
        self.guess = self.guess if len(self.guess) else np.zeros(self.potential.dimension)

    def start(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Positions (chains, d) near the best fit, and a factor (d, d) of the inverse Hessian there."""

        def function(x: Array) -> tuple[float, Array]:
            energy, gradient = self.potential.energy_and_gradient(x[None])
            return float(energy[0]), gradient[0]

        d = self.potential.dimension
        best = minimize(function, self.guess, jac=True, method="L-BFGS-B", options={"maxiter": 500}).x
        around, width = np.eye(d), 1e-4
        differences = [self.potential.energy_and_gradient(best + sign * width * around)[1] for sign in (1, -1)]
        hessian = (differences[0] - differences[1]) / (2 * width)
        curvature, directions = np.linalg.eigh(0.5 * (hessian + hessian.T))
        factor = directions / np.sqrt(np.maximum(curvature, 0.1))
        return best + rng.standard_normal((CHAINS, d)) @ factor.T, factor


def hamiltonian(
    potential: Potential,
    start: Array,
    factor: Array,
    trajectories: int,
    lengths: tuple[int, int],
    rng: np.random.Generator,
) -> tuple[Array, float]:
    """Draws (chains, trajectories, d) after ``start`` (chains, d), and the share of trajectories that were accepted.

    ``factor`` (d, d) times its transpose is the inverse mass matrix.
    """
    x, kept, accepted = start, [], 0.0
    energy, gradient = potential.energy_and_gradient(x)
    for _ in range(trajectories):
        first = rng.standard_normal(x.shape)
        step, steps = STEP * rng.uniform(0.9, 1.1), rng.integers(*lengths, endpoint=True)
        there, momentum = x, first - 0.5 * step * gradient @ factor
        for k in range(steps):
            there = there + step * momentum @ factor.T
            new_energy, new_gradient = potential.energy_and_gradient(there)
            momentum = momentum - (step if k < steps - 1 else 0.5 * step) * new_gradient @ factor
        change = energy - new_energy + 0.5 * (first**2).sum(axis=1) - 0.5 * (momentum**2).sum(axis=1)
        accept = np.log(rng.random(len(x))) < change
        x, energy = np.where(accept[:, None], there, x), np.where(accept, new_energy, energy)
        gradient = np.where(accept[:, None], new_gradient, gradient)
        accepted += accept.mean() / trajectories
        kept.append(x)
    return np.stack(kept, axis=1), accepted


def reference(case: Case, trajectories: int, seed: int) -> Array:
    """Draws (chains, trajectories, d)."""
    rng = np.random.default_rng(seed)
    x, factor = case.start(rng)
    for window in WINDOWS:
        draws, _ = hamiltonian(case.potential, x, factor, window, SHORT, rng)
        x, late = draws[:, -1], draws[:, window // 3 :].reshape(-1, x.shape[1])
        gradients = case.potential.energy_and_gradient(late)[1]
        # the mean of grad U grad U^T is the mean curvature
        factor = np.linalg.cholesky(np.linalg.inv(gradients.T @ gradients / len(gradients)))
    draws, accepted = hamiltonian(case.potential, x, factor, trajectories, case.steps, rng)
    bulk = diagnostics.ess(draws)
    print(
        f"{CHAINS} chains of {trajectories} trajectories, seed {seed}: {accepted:.0%} accepted, bulk ESS "
        f"{bulk.min():.0f} / {np.median(bulk):.0f} (least / median), R-hat at most {diagnostics.rhat(draws).max():.4f}"
    )
    return draws


def compare(draws: Array, summary: Path, group: str) -> None:
    """Print z of the means and sds of a summary against the draws."""
    stored = json.loads(summary.read_text())
    found = {name: np.asarray(values) for name, values in stored[group].items()}
    z_mean = (found["mean"] - draws.mean(axis=(0, 1))) / np.hypot(found["mcse_mean"], diagnostics.mcse(draws))
    sd = draws.std(axis=(0, 1), ddof=1)
    z_sd = (found["sd"] - sd) / np.hypot(found["mcse_sd"], diagnostics.mcse(draws, "sd"))
    print(
        f"{summary}, seed {stored['seed']}, {len(sd)} unknowns; sds {np.log(found['sd'] / sd).mean():+.1%} on average"
    )
    for name, z in (("means", z_mean), ("sds", z_sd)):
        print(f"    {name}: root mean square z {np.sqrt((z**2).mean()):.2f}, largest {np.abs(z).max():.1f}")


def main() -> None:
    """Draw, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problem", choices=NAMES, nargs="?", default="conductivity")
    parser.add_argument("--trajectories", type=int, default=240)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--against", type=Path, nargs="*", default=[], help="summary.json of the example's runs")
    given = parser.parse_args()
    case = Case(given.problem)
    draws = reference(case, given.trajectories, given.seed)
    for summary in given.against:
        compare(draws, summary, case.group)


if __name__ == "__main__":
    main()
