"""Robertson's reactions: three rates of an autocatalysis whose time scales span nine orders of magnitude.

    A -> B (k1),  B + B -> B + C (k2),  B + C -> A + C (k3)

Robertson (1966), "The solution of a set of reaction rate equations"; Hairer and Wanner, "Solving Ordinary Differential
Equations II", IV.1, eq. (1.4). After the first hundredth the system is stiff: the second substance relaxes within less
than a thousandth while the others change over thousands, and an explicit method's step is bound by it for ever. So the
problem goes through LSODA.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, increasing, integer, real
from invsamp.posing.distributions.univariate import LogNormal
from invsamp.posing.noise.continuous import LogNormalNoise
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior
from invsamp.problems.trajectory import Trajectory, as_trajectory, check_tolerances, simulate
from invsamp.solvers.foreign import Term
from invsamp.solvers.ode import OdeModel

Array = npt.NDArray[np.float64]

STATES = ("a", "b", "c")
PARAMETERS = ("k1", "k2", "k3")
TRUTH = MappingProxyType({"k1": 0.04, "k2": 3e7, "k3": 1e4})
#: All of the first substance, at time 0.
INITIAL = (1.0, 0.0, 0.0)
#: Times of the observations, evenly spaced in the logarithm.
TIMES = np.geomspace(1e-3, 1e4, 22)
TIMES.setflags(write=False)
#: Standard deviation of the logarithms of the data.
NOISE_SD = 0.05


def rhs(t: Term, x: Sequence[Term], p: Sequence[Term]) -> tuple[Term, Term, Term]:
    """Concentrations: a' = -k1 a + k3 b c, c' = k2 b^2, b' = -a' - c'."""
    a, b, c = x
    k1, k2, k3 = p
    forth, back, made = k1 * a, k3 * b * c, k2 * b * b
    return back - forth, forth - back - made, made


def data(times: npt.ArrayLike = TIMES, noise_sd: float = NOISE_SD, seed: int = 0) -> Trajectory:
    """Concentrations at the true rates, each times exp(noise_sd * standard normal).

    Parameters
    ----------
    times : array_like, shape (T,)
        Increasing and positive; the start (1, 0, 0) is at time 0.
    noise_sd : float, >= 0
        Of the logarithms; ``noise_sd`` of the result is the same for each state.
    seed : int

    Raises
    ------
    ValueError
        For times that do not increase or are not positive, and for negative noise.
    """
    times = np.array(array("times", increasing("times", times), above=0))  # at 0 two substances are missing
    noise_sd, rng = real("noise_sd", noise_sd, least=0), np.random.default_rng(integer("seed", seed, least=0))
    clean = simulate(_model(1e-10), TRUTH, INITIAL, np.concatenate([[0.0], times]))
    factors = np.exp(noise_sd * rng.standard_normal((len(times), len(STATES))))
    states = clean.clean[1:]
    return Trajectory(times, states * factors, states, clean.derivatives[1:], np.full(len(STATES), noise_sd))


def reactions(
    observed: Trajectory | None = None,
    rtol: float = 1e-6,
    coarse_rtol: float = 1e-3,
    method: Literal["LSODA", "RK45"] = "LSODA",
) -> Posterior:
    """Posterior of the three rates, in two fidelities.

    The rates are known to a factor of about ten: k1 ~ LogNormal(log 0.1, 2), k2 ~ LogNormal(log 1e7, 2),
    k3 ~ LogNormal(log 1e5, 2), in units of 1 / time and of 1 / (time * concentration). As they are positive they are
    sampled as logarithms. Log-normal noise of known scale.

    Parameters
    ----------
    observed : Trajectory, optional
        The concentrations to fit, with a positive ``noise_sd``; ``data()`` by default.
    rtol, coarse_rtol : float
        Relative tolerance of the integrator for the fidelities ``"fine"`` and ``"coarse"``. The absolute one is
        a ten-millionth of it, because the second substance never exceeds a few hundred-thousandths.
    method : {"LSODA", "RK45"}
        RK45 fails here, with the status "too many steps"; it is offered to show that.

    Returns
    -------
    Posterior
        Data of shape (T, 3).
    """
    check_tolerances(rtol, coarse_rtol)
    observed = data() if observed is None else as_trajectory(observed)
    forward = {
        name: _model(tolerance, method).observe(observed.times, INITIAL, t0=0.0)
        for name, tolerance in (("coarse", coarse_rtol), ("fine", rtol))
    }
    prior = Prior(k1=LogNormal(math.log(0.1), 2.0), k2=LogNormal(math.log(1e7), 2.0), k3=LogNormal(math.log(1e5), 2.0))
    return Posterior(prior, forward, observed.states, LogNormalNoise(observed.noise_sd))


def _model(rtol: float, method: Literal["LSODA", "RK45"] = "LSODA") -> OdeModel:
    # a trajectory of the posterior takes about 200 steps, and at the data's own tolerance 700
    return OdeModel(rhs, STATES, PARAMETERS, method=method, rtol=rtol, atol=1e-7 * rtol, max_steps=5_000)
