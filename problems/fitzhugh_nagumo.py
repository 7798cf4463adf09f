"""FitzHugh-Nagumo: voltage and recovery of a nerve's membrane, observed with much noise over two spikes.

The setting of Ramsay, Hooker, Campbell and Cao (2007), "Parameter estimation for differential equations: a generalized
smoothing approach", J. R. Statist. Soc. B 69(5). The misfit has ridges and false minima in the parameters: orbits of a
wrong period that cross the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from invsamp.arguments import real
from invsamp.posing.distributions.univariate import LogNormal, Normal
from invsamp.posing.noise.continuous import GaussianNoise
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior
from invsamp.problems.trajectory import Trajectory, as_trajectory, check_tolerances, simulate
from invsamp.solvers.foreign import Term
from invsamp.solvers.ode import OdeModel, OdeObservation

Array = npt.NDArray[np.float64]

STATES = ("v", "r")
PARAMETERS = ("a", "b", "c")
#: Times of the observations, without unit.
TIMES = np.linspace(0.0, 20.0, 401)
TIMES.setflags(write=False)
#: Standard deviation of the noise of both states, whose own are about 1.7 and 0.6.
NOISE_SD = 0.5
TRUTH = MappingProxyType(
    {"a": 0.2, "b": 0.2, "c": 3.0, "v0": -1.0, "r0": 1.0, "sigma[0]": NOISE_SD, "sigma[1]": NOISE_SD}
)


def rhs(t: Term, x: Sequence[Term], p: Sequence[Term]) -> tuple[Term, Term]:
    """Voltage v and recovery r: v' = c (v - v^3 / 3 + r), r' = -(v - a + b r) / c."""
    v, r = x
    a, b, c = p
    return c * (v - v**3 / 3.0 + r), -(v - a + b * r) / c


def data(times: npt.ArrayLike = TIMES, noise_sd: float = NOISE_SD, seed: int = 0) -> Trajectory:
    """Both states at the true parameters, with independent Gaussian noise.

    Parameters
    ----------
    times : array_like, shape (T,)
        Increasing; the start (-1, 1) is at the first.
    noise_sd : float, >= 0
    seed : int

    Raises
    ------
    ValueError
        For bad times or noise.
    """
    return simulate(
        _model(1e-10), TRUTH, (TRUTH["v0"], TRUTH["r0"]), times, noise_sd=real("noise_sd", noise_sd, least=0), seed=seed
    )


def nerve(observed: Trajectory | None = None, rtol: float = 1e-6, coarse_rtol: float = 1e-3) -> Posterior:
    """Posterior of the seven unknowns of the nerve, in two fidelities.

    a, b ~ Normal(0, 0.5) and c ~ LogNormal(1, 0.5); start v0, r0 ~ Normal(0, 1); Gaussian noise with one unknown scale
    per state, sigma ~ LogNormal(-1, 1). All are without unit.

    Parameters
    ----------
    observed : Trajectory, optional
        The states to fit; ``data()`` by default.
    rtol, coarse_rtol : float
        Relative tolerance of the integrator for the fidelities ``"fine"`` and ``"coarse"``.

    Returns
    -------
    Posterior
        Data of shape (T, 2).
    """
    check_tolerances(rtol, coarse_rtol)
    observed = data() if observed is None else as_trajectory(observed)
    prior = Prior(
        a=Normal(0.0, 0.5),
        b=Normal(0.0, 0.5),
        c=LogNormal(1.0, 0.5),
        v0=Normal(0.0, 1.0),
        r0=Normal(0.0, 1.0),
        sigma=LogNormal(-1.0, 1.0, shape=2),
    )
    forward = {"coarse": _observe(observed.times, coarse_rtol), "fine": _observe(observed.times, rtol)}
    return Posterior(prior, forward, observed.states, GaussianNoise("sigma"))


def _observe(times: Array, rtol: float) -> OdeObservation:
    return _model(rtol).observe(times, ("v0", "r0"))


def _model(rtol: float) -> OdeModel:
    # a trajectory of the posterior takes about 200 steps; far in the prior's tails the spikes are stiff
    return OdeModel(rhs, STATES, PARAMETERS, method="RK45", rtol=rtol, atol=1e-2 * rtol, max_steps=5_000)
