"""Inputs of a simulator, as the emulator uses them: unconstrained coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from invsamp.posing.posterior.coordinates import choose_coordinates
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import widened
from invsamp.posing.transforms.univariate import Coordinates, Identity
from invsamp.protocols import Array


@dataclass(frozen=True)
class Inputs:
    """The unknowns among what a model gets, in its order.

    Attributes
    ----------
    names : tuple of str
        Parameters whose columns these are.
    coordinates : Coordinates
        From their natural values to unconstrained ones: logs of positive parameters.
    """

    names: tuple[str, ...]
    coordinates: Coordinates

    def encode(self, given: Array) -> Array:
        """Coordinates (n, p) of natural values."""
        return self.coordinates.to_position(given)

    def slopes(self, coordinates: Array) -> Array:
        """Derivatives (n, p) of the coordinates by the natural values."""
        with np.errstate(divide="ignore"):
            return 1.0 / np.maximum(self.coordinates.evaluate(coordinates).derivative, 1e-300)


def inputs_of(posterior: Posterior, fidelity: str | None = None) -> Inputs:
    """Those of a fidelity, the finest by default."""
    names, columns = posterior.unknown_names(fidelity), posterior.columns(fidelity)
    prior = posterior.prior
    own = choose_coordinates(prior, posterior.domain, {}).bounded.transforms
    own += (Identity(),) * (max(one.stop for one in prior.slices.values()) - len(own))
    chosen = np.arange(len(own))[columns]
    return Inputs(names, Coordinates([own[k] for k in chosen]))


def given(posterior: Posterior, theta: Array, fidelity: str | None = None) -> Array:
    """Natural values (n, p) of the unknowns that a fidelity's model gets."""
    return np.ascontiguousarray(widened(posterior.prior, theta)[:, posterior.columns(fidelity)])
