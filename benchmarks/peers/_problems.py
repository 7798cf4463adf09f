"""The problems of the comparison, their references, and the measures of accuracy."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from invsamp.diagnostics import ess
from invsamp.posing.posterior.posterior import Posterior
from invsamp.problems import conductivity, fitzhugh_nagumo, heat_modes, lotka_volterra, poisson64
from invsamp.protocols import Array

HERE = Path(__file__).parent
REFERENCES = HERE / "references.json"


@dataclass(frozen=True)
class Case:
    """A problem as its module poses it.

    Parameters
    ----------
    title : str
    make : callable
        Its posterior.
    weights : mapping from fidelity to float
        Cost of a solve, in solves of the finest: the ratio of unknowns of their meshes.
    source : str
        Source of the reference.
    """

    title: str
    make: Callable[[], Posterior]
    weights: Mapping[str, float]
    source: str


CASES = {
    "hare_lynx": Case(
        "Hare and lynx: 8 unknowns of an ODE, 42 data",
        lotka_volterra.hare_lynx,
        {"coarse": 1.0, "fine": 1.0},
        "10,000 draws of a public posterior database",
    ),
    "fitzhugh_nagumo": Case(
        "FitzHugh-Nagumo: 7 unknowns of an ODE, 802 data",
        fitzhugh_nagumo.nerve,
        {"coarse": 1.0, "fine": 1.0},
        "plain Hamiltonian Monte Carlo (benchmarks/reference_draws.py), 16 chains of 4,000 trajectories",
    ),
    "conductivity": Case(
        "Conductivity: 20 modes of a field, 25 data, meshes of 16 x 16 and 32 x 32",
        lambda: conductivity.posterior({"coarse": 16, "fine": 32}),
        {"coarse": 0.25, "fine": 1.0},
        "plain Hamiltonian Monte Carlo (benchmarks/reference_draws.py), 16 chains of 2,000 trajectories",
    ),
    "poisson64": Case(
        "Poisson64: 64 stiffnesses, 169 data, meshes of 8 x 8 and 32 x 32",
        lambda: poisson64.posterior((8, 32)),
        {"8x8": 1 / 16, "32x32": 1.0},
        "plain Hamiltonian Monte Carlo (benchmarks/reference_draws.py), 16 chains of 450 trajectories",
    ),
    "heat_modes": Case(
        "Heat source with two modes: 2 unknowns, 1,000 data, meshes of 8 x 8, 16 x 16 and 64 x 64",
        heat_modes.posterior,
        {"8x8": 1 / 64, "16x16": 1 / 16, "64x64": 1.0},
        "quadrature on 400 x 400 cells",
    ),
}


class Unfinished(BaseException):
    """A run exceeds its time limit; no `Exception`, which toolkits would catch."""


class Density:
    """Log density of positions on the finest level, a row at a time, which counts its solves.

    After ``until``, in seconds of the processor, it raises `Unfinished`.

    Positions are invsamp's coordinates, in which positive parameters are logs, for all toolkits. The value is -inf
    outside a box.
    """

    until = np.inf
    #: The latest one: it has the solves of an unfinished run.
    latest: ClassVar[Density]

    def __init__(self, posterior: Posterior) -> None:
        Density.latest = self
        self.posterior, self.potential = posterior, posterior.potential()
        self.dimension, self.domain = posterior.dimension, posterior.sampling_domain
        self.solves = self.gradients = 0

    def __call__(self, x: Any) -> float:
        """One solve."""
        point = self._point(x)
        if not self.domain.contains(point)[0]:
            return -np.inf
        self.solves += 1
        return _log(self.potential.energy(point)[0])

    def with_gradient(self, x: Any) -> tuple[float, Array]:
        """One solve, with the gradient."""
        point = self._point(x)
        if not self.domain.contains(point)[0]:
            return -np.inf, np.zeros(self.dimension)
        self.solves += 1
        self.gradients += 1
        energy, gradient = self.potential.energy_and_gradient(point)
        return _log(energy[0]), -np.nan_to_num(gradient[0])

    def energy_and_gradient(self, points: Array) -> tuple[Array, Array]:
        """Energies (batch,) and gradients of the potential, without the time limit."""
        self.solves += len(points)
        self.gradients += len(points)
        return self.potential.energy_and_gradient(points)

    def _point(self, x: Any) -> Array:
        if time.process_time() > self.until:
            raise Unfinished
        return np.array(x, dtype=float).reshape(1, -1)

    def starts(self, seed: int, chains: int) -> Array:
        """Draws of the prior, the same for all."""
        return self.posterior.sample_start(np.random.default_rng(seed), chains)


def _log(energy: float) -> float:
    return -float(energy) if np.isfinite(energy) else -np.inf


def references() -> dict[str, Any]:
    """By problem: mean, sd and standard error of the mean of each entry of theta, and the mean energy."""
    found: dict[str, Any] = json.loads(REFERENCES.read_text())
    return found


def moments(theta: Array, energy: Array) -> dict[str, Any]:
    """The record of a reference, from draws theta (chains, draws, d)."""
    size = ess(theta)
    sd = theta.std(axis=(0, 1))
    mean = theta.mean(axis=(0, 1))
    return {
        "mean": mean.tolist(),
        "sd": sd.tolist(),
        "error": (sd / np.sqrt(size)).tolist(),
        "energy": float(energy.mean()),
    }


def judged(name: str, posterior: Posterior, theta: Array) -> dict[str, Any]:
    """Least effective draws of theta (chains, draws, d), errors, and the share of chains in false modes."""
    known = references()[name]
    mean, sd = np.array(known["mean"]), np.array(known["sd"])
    size = np.nan_to_num(np.asarray(ess(theta)), nan=0.0)
    if name == "heat_modes":
        # rank-based ESS weighs ranks within a mode like the mode itself, on which the mean depends
        size = np.append(size, crossings(heat_modes.on_the_right(theta)))
    off = (theta.mean(axis=(0, 1)) - mean) / sd
    some = theta[:, np.linspace(theta.shape[1] // 2, theta.shape[1] - 1, 20).astype(int)]
    energy = posterior.potential().energy(posterior.to_position(some.reshape(-1, theta.shape[2])))
    energy = energy.reshape(some.shape[:2]).mean(axis=1)
    # a mean energy is within a few posterior sds, sqrt(d / 2), of the posterior's
    false = energy > known["energy"] + 6.0 * np.sqrt(theta.shape[2] / 2)
    record = {
        "ess": float(size.min()),
        "mean_error": float(np.sqrt(np.mean(off**2))),
        "sd_error": float(np.sqrt(np.mean((theta.std(axis=(0, 1)) / sd - 1.0) ** 2))),
        "false": float(false.mean()),
    }
    if name == "heat_modes":
        record["right"] = float(heat_modes.on_the_right(theta).mean())
    return record


def crossings(right: npt.NDArray[np.bool_]) -> float:
    """ESS of the mode's indicator (chains, draws); 0 if a chain stays in its first mode."""
    moved = (right != right[:, :1]).any(axis=1)
    return float(ess(right.astype(float))) if moved.all() else 0.0


def exact(name: str) -> dict[str, Any]:
    """Moments by quadrature, for problems that allow it."""
    posterior = CASES[name].make()
    if name == "hare_lynx":
        known = lotka_volterra.REFERENCE
        mean = np.array([one.mean for one in known.values()])
        at = posterior.potential().energy(posterior.to_position(mean[None]))[0]
        sd = np.array([one.sd for one in known.values()])
        return {"mean": mean.tolist(), "sd": sd.tolist(), "error": (sd / 100.0).tolist(), "energy": float(at) + 4.0}
    found = heat_modes.quadrature(posterior)
    weight = found.density / found.density.sum()
    mean = np.array([weight.sum(axis=1) @ found.points, weight.sum(axis=0) @ found.points])
    square = np.array([weight.sum(axis=1) @ found.points**2, weight.sum(axis=0) @ found.points**2])
    best = posterior.potential().energy(posterior.to_position(np.array([found.right.mean])))[0]
    sd = np.sqrt(square - mean**2)
    return {
        "mean": mean.tolist(),
        "sd": sd.tolist(),
        "error": [0.0, 0.0],
        "energy": float(best) + 1.0,
        "right": float(found.right.weight),
    }
