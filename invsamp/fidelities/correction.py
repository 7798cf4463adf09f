"""Corrections of all coarse fidelities of a posterior, from pairs of solves at given states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, integer, optional
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array
from invsamp.surrogates.costs import costs_of
from invsamp.surrogates.learning import (
    Correction,
    LevelCorrection,
    Refittable,
    check_kind,
    learned,
    predicted_apart,
    refitted,
    whole,
)
from invsamp.surrogates.pairs import Kind


@dataclass(frozen=True)
class Corrected:
    """A posterior whose coarse fidelities are corrected, and what was learned of each. `invsamp.correct` makes it.

    Attributes
    ----------
    posterior : Posterior
        The finest fidelity is as it was: so is the target.
    levels : tuple of LevelCorrection
        From the coarsest on.
    thetas : ndarray, shape (n, dimension)
        States of the pairs.
    evaluations : mapping of fidelities to int
        Solves that learning took: with gradients where a coarse fidelity was sampled, energies alone for the pairs.
    """

    posterior: Posterior = field(repr=False)
    levels: tuple[LevelCorrection, ...]
    thetas: Array = field(repr=False)
    evaluations: Mapping[str, int]

    def draws(self, n: int, seed: int | None = None) -> Array:
        """Natural parameters (n, dimension) of some of the states: starts for `invsamp.sample`.

        Raises
        ------
        ValueError
            If ``n`` is not at least 1.
        """
        integer("n", n, least=1)
        rng = np.random.default_rng(optional(integer, "seed", seed, least=0))
        order = [rng.permutation(len(self.thetas)) for _ in range(-(-n // len(self.thetas)))]
        return self.thetas[np.concatenate(order)[:n]]

    def __str__(self) -> str:
        solves = ", ".join(f"{count:,} of {name!r}" for name, count in self.evaluations.items())
        return "\n".join([*map(str, self.levels), f"evaluations: {solves}"])


def learn(
    posterior: Posterior, states: npt.ArrayLike, kind: Kind | Literal["auto"], seed: int, enhanced: bool = False
) -> Corrected:
    r"""Learn corrections of the coarse fidelities from pairs of solves at states.

    Parameters
    ----------
    posterior : Posterior
    states : array_like, shape (n, dimension)
    kind : "auto", "none", "offset", "affine" or "polynomial"
    seed : int
        Of the choice of the pairs that are held out.
    enhanced : bool
        Whether the covariance of what the maps leave is added to the noise.

    Raises
    ------
    ValueError
        As `invsamp.correct`.
    """
    theta = array("states", states, ("n", posterior.dimension), finite=False, nan=True)
    rng = np.random.default_rng(seed)
    *coarse, finest = posterior.fidelities
    if not coarse:
        raise ValueError(f"posterior must have several fidelities, got {finest!r} alone")
    if not posterior.predicts:
        raise ValueError("posterior must have forward models to correct, got one posed by its log likelihood")
    for name in coarse:
        check_kind(kind, name, posterior.unknowns(name), len(theta))
    fine = _solved(posterior, theta, finest)
    solved = whole(fine) & whole(theta)
    forward, levels = dict(posterior.forward), []
    for name in coarse:
        if isinstance(forward[name], Refittable):
            forward[name] = refitted(posterior, forward[name], name, theta[solved], fine[solved])
    fitted = corrected = posterior.with_forward(forward)
    costs = costs_of(posterior)
    for name in coarse:
        y = _solved(fitted, theta, name)
        if isinstance(model := posterior.forward[name], Refittable):
            apart = predicted_apart(posterior, model, name, theta[solved], fine[solved], rng)
            y[solved] = fitted.among_data(apart, name)
        level = learned(fitted, name, theta, y, fine, kind, rng, enhanced)
        levels.append(level.level(name, costs.ratio(name, finest), costs.source))
        corrected = Correction(name, level.found, level.missing).applied(corrected)
    solves = dict.fromkeys(posterior.fidelities, len(theta))
    return Corrected(corrected, tuple(levels), theta[solved], solves)


def _solved(posterior: Posterior, theta: Array, fidelity: str) -> Array:
    """Observations (n, m)."""
    return posterior.predict(theta, fidelity).reshape(len(theta), -1)
