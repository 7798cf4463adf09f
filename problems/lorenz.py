"""Lorenz' system: its three parameters from a trajectory, under the constraints of the chaotic regime.

The setting is that of Zheng et al. (2024), "Constrained exploration via reflected replica exchange SGLD", section 4.1
and appendix A.1; the start (1, 1, 1) is that of their code. Two posteriors are made from the same data:

- `gradient_matching`, as published: linear regression of the derivatives, whose posterior is a truncated Gaussian
  that is known exactly;
- `multiple_shooting`: the states themselves, over segments with unknown starts. Calibrated where states are noisy.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from invsamp.domains.constraints import constraint
from invsamp.posing.distributions.univariate import Normal, Uniform
from invsamp.posing.noise.continuous import GaussianNoise
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior
from invsamp.problems.trajectory import Trajectory, as_trajectory, check_tolerances, matched, segment_begins, simulate
from invsamp.solvers.foreign import Term
from invsamp.solvers.gradient_matching import linear_in_parameters
from invsamp.solvers.ode import MultipleShooting, OdeModel

Array = npt.NDArray[np.float64]

STATES = ("x", "y", "z")
PARAMETERS = ("sigma", "rho", "beta")
TRUTH = MappingProxyType({"sigma": 10.0, "rho": 28.0, "beta": 8.0 / 3.0})
INITIAL = (1.0, 1.0, 1.0)
TIMES = np.arange(10_001) / 100.0
TIMES.setflags(write=False)
#: The published constraints (A.1). With rho > 1 there are two fixed points beside the origin, and with sigma > 1 + beta
#: they lose their stability at some rho.
CHAOTIC = constraint("sigma > 1 + beta") & constraint("rho > 1") & constraint("beta > 0") & constraint("sigma > 0")
#: Upper end of the flat priors of sigma, rho and beta, whose lower end is 0.
LARGEST = 50.0


def rhs(t: Term, x: Sequence[Term], p: Sequence[Term]) -> tuple[Term, Term, Term]:
    """Convection: x' = sigma (y - x), y' = x (rho - z) - y, z' = x y - beta z."""
    x0, y, z = x
    sigma, rho, beta = p
    return sigma * (y - x0), x0 * (rho - z) - y, x0 * y - beta * z


def data(times: npt.ArrayLike = TIMES, noise: float = 0.0, seed: int = 0) -> Trajectory:
    """The three states from (1, 1, 1) at the true parameters, and their exact derivatives.

    After about 30 units of time another machine's rounding makes another trajectory, which is as good a solution.

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
    return simulate(_model(1e-10), TRUTH, INITIAL, times, noise=noise, seed=seed)


def gradient_matching(
    observed: Trajectory | None = None, derivatives: object = None, noise_sd: npt.ArrayLike | None = None
) -> Posterior:
    """Posterior of sigma, rho and beta from the derivatives of the states: linear, so exactly a truncated Gaussian.

    The priors are Uniform(0, 50), restricted to `CHAOTIC`. There is one fidelity, as nothing is solved; each of the
    3 T equations is a datum, for minibatches. ``posterior.forward["model"].gaussian(noise_sd)`` is the Gaussian before
    truncation.

    Parameters
    ----------
    observed : Trajectory, optional
        ``data()``, without noise, by default.
    derivatives : array (T, 3), str or part, optional
        As in `invsamp.solvers.gradient_matching.match`. By default the exact ones, as published; for noisy states
        "weak" is the least biased.
    noise_sd : float or array (3,), > 0, optional
        Standard deviation of what was measured: of the derivatives where those are given (1 by default), else of the
        states (by default what the trajectory says).

    Returns
    -------
    Posterior
        Data of shape (3 T,) or fewer, by time and then by state.

    Raises
    ------
    ValueError
        For ``derivatives`` that are unknown or of a wrong shape, and ``noise_sd`` that is not positive.
    """
    library = linear_in_parameters(rhs, STATES, PARAMETERS)
    model, noise_sd = matched(library, data() if observed is None else observed, derivatives, noise_sd)
    prior = Prior(**dict.fromkeys(PARAMETERS, Uniform(0.0, LARGEST)))
    return Posterior(prior, model, model.data, GaussianNoise(model.scale(noise_sd)), domain=CHAOTIC)


def multiple_shooting(
    observed: Trajectory | None = None, segment: float = 0.5, rtol: float = 1e-6, coarse_rtol: float = 1e-3
) -> Posterior:
    """Posterior of sigma, rho, beta and the states at the segments' beginnings, in two fidelities.

    Priors Uniform(0, 50), restricted to `CHAOTIC`, and starts ~ Normal(0, 50), far wider than the attractor. The
    ``MultipleShooting`` of a fidelity is ``posterior.forward["fine"]``: its ``fit`` gives starting points, without
    which a sampler would have far to go.

    Parameters
    ----------
    observed : Trajectory, optional
        ``data(noise=0.05)`` at every fifth of the times, spaced by 0.05, by default.
    segment : float, > 0
        Length of a segment in time. From 0.5 a fit finds its way even from far away; the longer, the more the data say
        and the closer a fit must begin.
    rtol, coarse_rtol : float
        Relative tolerance of the integrator for the fidelities ``"fine"`` and ``"coarse"``.

    Returns
    -------
    Posterior
        Data of shape (3 T,), by time and then by state; Gaussian noise of the known standard deviations.

    Raises
    ------
    ValueError
        If a segment would have no data, or the trajectory has no noise.
    """
    check_tolerances(rtol, coarse_rtol)
    observed = data(TIMES[::5], noise=0.05) if observed is None else as_trajectory(observed)
    fine = MultipleShooting(_model(rtol), observed.times, segment_begins(observed.times, segment))
    forward = {"coarse": fine.coarsen(rtol=coarse_rtol, atol=1e-3 * coarse_rtol), "fine": fine}
    prior = Prior(
        **dict.fromkeys(PARAMETERS, Uniform(0.0, LARGEST)),
        starts=Normal(0.0, 50.0, shape=(len(fine.begins), len(STATES))),
    )
    return Posterior(
        prior, forward, fine.data(observed.states), GaussianNoise(fine.scale(observed.noise_sd)), domain=CHAOTIC
    )


def _model(rtol: float) -> OdeModel:
    return OdeModel(rhs, STATES, PARAMETERS, method="RK45", rtol=rtol, atol=1e-3 * rtol, max_steps=100_000)
