"""Influenza in a boarding school, 1978: 763 boys, and how many of them were in bed on each of fourteen days.

The counts are those of "Influenza in a boarding school", British Medical Journal 1 (1978), 587. Model and priors follow
Grinsztajn, Semenova, Margossian and Riou (2021), "Bayesian workflow for disease transmission modeling in Stan",
Statistics in Medicine 40, section 2. The states are the susceptible, infected (those in bed) and recovered boys. One
boy is infected the day before the first count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from invsamp.arguments import one_of, real
from invsamp.posing.distributions.truncated import truncated
from invsamp.posing.distributions.univariate import Normal
from invsamp.posing.distributions.univariate_more import Exponential
from invsamp.posing.noise.discrete import NegativeBinomialNoise, PoissonNoise
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior
from invsamp.solvers.foreign import Term
from invsamp.solvers.ode import OdeModel

BOYS = 763
DAYS = np.arange(1.0, 15.0)
IN_BED = np.array([3.0, 8.0, 26.0, 76.0, 225.0, 298.0, 258.0, 233.0, 189.0, 128.0, 68.0, 29.0, 14.0, 4.0])
for _array in (DAYS, IN_BED):
    _array.setflags(write=False)


def rhs(t: Term, x: Sequence[Term], p: Sequence[Term]) -> tuple[Term, Term]:
    """Susceptible s and infected i: s' = -beta s i / 763, i' = beta s i / 763 - gamma i, in days."""
    susceptible, infected = x
    beta, gamma = p
    new = beta * susceptible * infected / BOYS
    return -new, new - gamma * infected


def outbreak(noise: Literal["negative binomial", "poisson"] = "negative binomial", rtol: float = 1e-6) -> Posterior:
    """Posterior of the rates of infection and recovery, per day, and of the dispersion of the counts.

    Parameters
    ----------
    noise : {"negative binomial", "poisson"}
        Of the counts. Poisson's has no dispersion: it takes each boy in bed as an event by itself, which they are not.
    rtol : float
        Of the integrator.

    Returns
    -------
    Posterior
        beta ~ Normal(2, 1) and gamma ~ Normal(0.4, 0.5), both positive, and dispersion ~ Exponential(5).
    """
    one_of("noise", noise, ("negative binomial", "poisson"))
    model = OdeModel(rhs, ("susceptible", "infected"), ("beta", "gamma"), rtol=real("rtol", rtol, above=0))
    forward = model.observe(DAYS, initial=(BOYS - 1.0, 1.0), t0=0.0, states=("infected",))
    rates = {"beta": truncated(Normal(2.0, 1.0), lower=0.0), "gamma": truncated(Normal(0.4, 0.5), lower=0.0)}
    data = IN_BED[:, None]
    if noise == "poisson":
        return Posterior(Prior(**rates), forward, data, PoissonNoise())
    prior = Prior(**rates, dispersion=Exponential(5.0))
    return Posterior(prior, forward, data, NegativeBinomialNoise("dispersion"))
