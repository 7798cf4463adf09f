"""Lotka-Volterra's predator-prey model: a record of nature, and a trajectory made up with known parameters.

- `hare_lynx` fits the pelts that the Hudson's Bay Company took in, in thousands, 1900 to 1920 (Howard 2009); model and
  priors follow Carpenter (2018), "Predator-Prey Population Dynamics: the Lotka-Volterra model in Stan".
- `gradient_matching` and `multiple_shooting` find the parameters of the synthetic setting of Zheng et al. (2024),
  "Constrained exploration via reflected replica exchange SGLD", section 4.1 and appendix A.2. Its start (10, 5) is
  inferred from their figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.domains import Box
from invsamp.posing.distributions.truncated import truncated
from invsamp.posing.distributions.univariate import LogNormal, Normal, Uniform
from invsamp.posing.noise.continuous import GaussianNoise, LogNormalNoise
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior
from invsamp.problems.trajectory import Trajectory, as_trajectory, check_tolerances, matched, segment_begins, simulate
from invsamp.solvers.foreign import Term
from invsamp.solvers.gradient_matching import linear_in_parameters
from invsamp.solvers.ode import MultipleShooting, OdeModel, OdeObservation

STATES = ("u", "v")
PARAMETERS = ("alpha", "beta", "gamma", "delta")

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

#: The synthetic setting. Zheng et al. call our gamma delta and our delta gamma.
TRUTH = MappingProxyType({"alpha": 1.0, "beta": 0.1, "gamma": 1.5, "delta": 0.075})
INITIAL = (10.0, 5.0)
TIMES = np.arange(10_001) / 100.0
TIMES.setflags(write=False)
#: Upper ends of the flat priors of the synthetic setting, whose lower end is 0.
LARGEST = MappingProxyType({"alpha": 5.0, "beta": 1.0, "gamma": 5.0, "delta": 1.0})


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


def rhs(t: Term, x: Sequence[Term], p: Sequence[Term]) -> tuple[Term, Term]:
    """Growth of prey u and predators v: u' = (alpha - beta v) u, v' = (-gamma + delta u) v."""
    u, v = x
    alpha, beta, gamma, delta = p
    return (alpha - beta * v) * u, (-gamma + delta * u) * v


def hare_lynx(method: Literal["LSODA", "RK45"] = "RK45", rtol: float = 1e-6, coarse_rtol: float = 1e-4) -> Posterior:
    """Posterior of the eight unknowns of the hare-lynx record, in two fidelities.

    Rates alpha, gamma ~ Normal(1, 0.5) and beta, delta ~ Normal(0.05, 0.05), all positive, per year (beta and delta
    also per thousand pelts). Populations at the first year u0, v0 ~ LogNormal(log 10, 1), in thousands. Log-normal
    observation noise with one unknown scale per species, sigma ~ LogNormal(-1, 1).

    Parameters
    ----------
    method : {"LSODA", "RK45"}
        Integrator; the orbits are not stiff, and RK45 takes a twentieth of the time.
    rtol, coarse_rtol : float
        Its relative tolerance, for the fidelities ``"fine"`` and ``"coarse"`` (off by up to 1% of a population, in
        three quarters of the time).

    Returns
    -------
    Posterior
        Data of shape (21, 2): years by (hare, lynx).
    """
    check_tolerances(rtol, coarse_rtol)
    prior = Prior(
        alpha=truncated(Normal(1.0, 0.5), lower=0.0),
        beta=truncated(Normal(0.05, 0.05), lower=0.0),
        gamma=truncated(Normal(1.0, 0.5), lower=0.0),
        delta=truncated(Normal(0.05, 0.05), lower=0.0),
        u0=LogNormal(np.log(10.0), 1.0),
        v0=LogNormal(np.log(10.0), 1.0),
        sigma=LogNormal(-1.0, 1.0, shape=2),
    )
    forward = {"coarse": _observe(method, coarse_rtol), "fine": _observe(method, rtol)}
    return Posterior(prior, forward, PELTS, LogNormalNoise("sigma"))


def data(times: npt.ArrayLike = TIMES, noise: float = 0.0, seed: int = 0) -> Trajectory:
    """Prey and predators from (10, 5) at the parameters `TRUTH`, and their exact derivatives.

    Parameters
    ----------
    times : array_like, shape (T,)
        Increasing; the start is at the first.
    noise : float, >= 0
        Standard deviation of each state's noise, relative to that state's own over the trajectory.
    seed : int
        Of the noise.

    Raises
    ------
    ValueError
        For bad times or negative noise.
    """
    return simulate(_model("RK45", 1e-10), TRUTH, INITIAL, times, noise=noise, seed=seed)


def gradient_matching(
    observed: Trajectory | None = None, derivatives: object = None, noise_sd: npt.ArrayLike | None = None
) -> Posterior:
    """Posterior of the four rates from the derivatives of the states: linear, so exactly a truncated Gaussian.

    The priors are Uniform from 0 to `LARGEST`, and the domain asks for positive rates. There is one fidelity, as
    nothing is solved; each of the 2 T equations is a datum, for minibatches. The Gaussian before truncation is
    ``posterior.forward["model"].gaussian(noise_sd)``.

    Parameters
    ----------
    observed, derivatives, noise_sd
        As in `invsamp.problems.lorenz.gradient_matching`, for two states.

    Returns
    -------
    Posterior
        Data of shape (2 T,) or fewer, by time and then by state.

    Raises
    ------
    ValueError
        As there.
    """
    library = linear_in_parameters(rhs, STATES, PARAMETERS)
    model, noise_sd = matched(library, data() if observed is None else observed, derivatives, noise_sd)
    return Posterior(Prior(**_flat()), model, model.data, GaussianNoise(model.scale(noise_sd)), domain=Box(0.0, np.inf))


def multiple_shooting(
    observed: Trajectory | None = None, segment: float = 5.0, rtol: float = 1e-6, coarse_rtol: float = 1e-3
) -> Posterior:
    """Posterior of the rates and of the populations at the segments' beginnings, in two fidelities.

    Priors Uniform from 0 to `LARGEST`, and starts ~ LogNormal(log 10, 1). The ``MultipleShooting`` of a fidelity is
    ``posterior.forward["fine"]``: its ``fit`` gives starting points.

    Parameters
    ----------
    observed : Trajectory, optional
        ``data(noise=0.05)`` at every fiftieth of the times, spaced by 0.5, by default.
    segment : float, > 0
        Length of a segment in time; the period is about 5.5.
    rtol, coarse_rtol : float
        Relative tolerance of the integrator for the fidelities ``"fine"`` and ``"coarse"``.

    Returns
    -------
    Posterior
        Data of shape (2 T,), by time and then by state; Gaussian noise of the known standard deviations.

    Raises
    ------
    ValueError
        If a segment would have no data, or the trajectory has no noise.
    """
    check_tolerances(rtol, coarse_rtol)
    observed = data(TIMES[::50], noise=0.05) if observed is None else as_trajectory(observed)
    fine = MultipleShooting(_model("RK45", rtol), observed.times, segment_begins(observed.times, segment))
    forward = {"coarse": fine.coarsen(rtol=coarse_rtol, atol=1e-3 * coarse_rtol), "fine": fine}
    prior = Prior(**_flat(), starts=LogNormal(np.log(10.0), 1.0, shape=(len(fine.begins), len(STATES))))
    return Posterior(prior, forward, fine.data(observed.states), GaussianNoise(fine.scale(observed.noise_sd)))


def _flat() -> dict[str, Uniform]:
    return {name: Uniform(0.0, LARGEST[name]) for name in PARAMETERS}


def _observe(method: Literal["LSODA", "RK45"], rtol: float) -> OdeObservation:
    return _model(method, rtol).observe(YEARS, ("u0", "v0"))


def _model(method: Literal["LSODA", "RK45"], rtol: float) -> OdeModel:
    # a trajectory of either posterior takes a few hundred steps; far in a prior's tails it may take any number
    return OdeModel(rhs, STATES, PARAMETERS, method=method, rtol=rtol, atol=1e-3 * rtol, max_steps=5_000)
