"""Hare and lynx: the predator-prey model fitted to the pelts that the Hudson's Bay Company took in.

The data are in thousands of pelts, 1900 to 1920 (Howard 2009); model and priors follow Carpenter (2018),
"Predator-Prey Population Dynamics: the Lotka-Volterra model in Stan".
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from invsamp.distributions import LogNormal, Normal, truncated
from invsamp.noise import LogNormalNoise
from invsamp.posterior import Posterior
from invsamp.prior import Prior
from invsamp.solvers.ode import OdeModel, OdeObservation

YEARS = np.arange(1900.0, 1921.0)
HARES = (
    *(30.0, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22.0, 25.4, 27.1),
    *(40.3, 57.0, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6, 16.2, 24.7),
)
LYNXES = (
    *(4.0, 6.1, 9.8, 35.2, 59.4, 41.7, 19.0, 13.0, 8.3, 9.1, 7.4),
    *(8.0, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6),
)
PELTS = np.column_stack([HARES, LYNXES])  # (21, 2), thousands


class Reference(NamedTuple):
    """Mean and standard deviation of one parameter's posterior; the Monte Carlo error is in the last digit."""

    mean: float
    sd: float


#: Posterior of `hare_lynx` from 10,000 reference draws of a public posterior database.
REFERENCE = MappingProxyType(
    {
        "alpha": Reference(0.547, 0.063),
        "beta": Reference(0.0277, 0.0042),
        "gamma": Reference(0.800, 0.089),
        "delta": Reference(0.0241, 0.0035),
        "u0": Reference(34.0, 2.9),
        "v0": Reference(5.94, 0.53),
        "sigma[0]": Reference(0.248, 0.043),
        "sigma[1]": Reference(0.251, 0.044),
    }
)


def rhs(t: Any, x: Sequence[Any], p: Sequence[Any]) -> tuple[Any, Any]:
    """Growth of prey u and predators v: u' = (alpha - beta v) u, v' = (-gamma + delta u) v."""
    u, v = x
    alpha, beta, gamma, delta = p
    return (alpha - beta * v) * u, (-gamma + delta * u) * v


def hare_lynx(method: Literal["LSODA", "RK45"] = "LSODA", rtol: float = 1e-6, coarse_rtol: float = 1e-3) -> Posterior:
    """Posterior of the eight unknowns of the hare-lynx record, in two fidelities.

    Rates alpha, gamma ~ Normal(1, 0.5) and beta, delta ~ Normal(0.05, 0.05), all positive, per year (beta and delta
    also per thousand pelts); populations at the first year u0, v0 ~ LogNormal(log 10, 1), in thousands; log-normal
    observation noise with one unknown scale per species, sigma ~ LogNormal(-1, 1).

    Parameters
    ----------
    method : {"LSODA", "RK45"}
        Integrator.
    rtol, coarse_rtol : float
        Its relative tolerance, for the fidelities ``"fine"`` and ``"coarse"`` (off by up to 1% of a population, in
        well under half the time).

    Returns
    -------
    Posterior
        Data of shape (21, 2): years by (hare, lynx).
    """
    prior = Prior(
        alpha=truncated(Normal(1.0, 0.5), lower=0.0),
        beta=truncated(Normal(0.05, 0.05), lower=0.0),
        gamma=truncated(Normal(1.0, 0.5), lower=0.0),
        delta=truncated(Normal(0.05, 0.05), lower=0.0),
        u0=LogNormal(np.log(10.0), 1.0),
        v0=LogNormal(np.log(10.0), 1.0),
        sigma=LogNormal(-1.0, 1.0, shape=2),
    )
    forward = {"coarse": _model(method, coarse_rtol), "fine": _model(method, rtol)}
    return Posterior(prior, forward, PELTS, LogNormalNoise("sigma"))


def _model(method: Literal["LSODA", "RK45"], rtol: float) -> OdeObservation:
    model = OdeModel(
        rhs,
        states=("u", "v"),
        parameters=("alpha", "beta", "gamma", "delta"),
        method=method,
        rtol=rtol,
        atol=1e-3 * rtol,
        # a trajectory of the posterior takes about 150 steps; far in the prior's tails it may take any number
        max_steps=5_000,
    )
    return model.observe(YEARS, ("u0", "v0"))
