"""A PEtab problem as a posterior."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from invsamp.petab.conditions import experiments
from invsamp.petab.noises import noise_of
from invsamp.petab.priors import prior_of
from invsamp.petab.reading import read_tables
from invsamp.petab.tables import Tables
from invsamp.posing.distributions.univariate import Uniform
from invsamp.posing.distributions.univariate_more import LogUniform
from invsamp.posing.posterior.posterior import Posterior
from invsamp.solvers.ode import SbmlModel

#: Of the way between two bounds, what a start keeps from either.
INSET = 0.01


@dataclass(frozen=True, eq=False)
class PetabProblem:
    """A problem with what its files say beside the posterior; made by `load`.

    Attributes
    ----------
    posterior : Posterior
        Of the parameters that are estimated, as the table names them, on a linear scale. What is uniform between its
        bounds, or has a uniform logarithm, is sampled as ``log((x - lower) / (upper - x))``; `Posterior.with_bounds` is
        the same posterior with bounds at the bounds. The data are the measurements, in their order. Scales of noise
        that depend on states of the model come after them, as outputs of the model of which nothing was observed.
    nominal : mapping from name to float
        Nominal values of these parameters; NaN where there are none. They may lie at a bound: `start` does not.
    model : SbmlModel
        What is solved.
    tables : Tables
        What the files say.
    """

    posterior: Posterior
    nominal: Mapping[str, float]
    model: SbmlModel
    tables: Tables

    @property
    def start(self) -> dict[str, float]:
        """The nominal values, for ``start=``: those at a bound a hundredth of the way between the bounds inside."""
        bounded = self.posterior.with_bounds()
        lower, upper = (bounded.to_position(end) for end in bounded.prior.support)
        inset = np.where(np.isfinite(lower) & np.isfinite(upper), INSET * (upper - lower), 0.0)
        nominal = bounded.to_position([self.nominal[name] for name in bounded.labels])
        theta = bounded.to_theta(np.clip(nominal, lower + inset, upper - inset))
        return dict(zip(bounded.labels, theta.tolist(), strict=True))


def load(path: str | Path, **settings: object) -> PetabProblem:
    """A PEtab problem of version 1 or 2, with an SBML model.

    Parameters
    ----------
    path : str or Path
        The problem's YAML file.
    **settings
        Of `invsamp.solvers.ode.OdeModel`: ``rtol``, ``atol``, ``method`` and so on. ``error_control`` is "states" by
        default. At 40 points around the published parameters of each of eight problems, 5 to 20% away from them, the
        largest error of a gradient was 2e-5 of its norm. Errors are larger where sensitivities grow for long: until
        t = 20 and with random residuals 2 of 40 gradients of Borghans' oscillator were off by more than 1e-3, one of
        them by 0.08. Wrong gradients cost a sampler acceptance, and a search for modes its way; they do not change the
        target distribution. ``error_control="full"`` has errors below 1e-5, and 1.2e-3 for the oscillator. It takes 1
        to 2.3 times as long for most problems, 4 to 14 times for Elowitz'.

    Returns
    -------
    PetabProblem

    Raises
    ------
    ModuleNotFoundError
        Without the extra ``petab``.
    ValueError
        For files that are not there or do not fit together, and for each feature that is not supported, by name,
        before anything is solved.

    Notes
    -----
    A parameter has the prior of the table of parameters, uniform between its bounds (on its scale in version 1) by
    default, and in any case within its bounds. The log likelihood has all constants, and is one of the measurements
    themselves, whatever transforms the observable (PEtab's documentation of the data format, "Noise distributions").
    A measurement at the time of a change sees the state after it. Not supported: models in other languages, problems of
    several models, mapping tables, and what `invsamp.solvers.ode.from_sbml` does not support.
    """
    tables = read_tables(path)
    forward, model, predicted = experiments(tables, {"error_control": "states", **settings})
    values = [*(row.value for row in tables.measurements), *(math.nan for _ in predicted)]
    data = np.ma.masked_invalid(values) if predicted else np.array(values)
    prior = prior_of(tables.parameters)
    transforms = {name: "logit" for name in prior.names if isinstance(prior.distributions[name], Uniform | LogUniform)}
    posterior = Posterior(
        prior, forward=forward, data=data, noise=noise_of(tables, model, predicted), transforms=transforms
    )
    nominal = {name: each.nominal for name, each in tables.parameters.items() if each.estimated}
    return PetabProblem(posterior, nominal, model, tables)


def posterior(path: str | Path, **settings: object) -> Posterior:
    """The posterior of a PEtab problem: `load` says what it takes and what it does not.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.sample(iv.petab.posterior("problem.yaml"))  # doctest: +SKIP
    """
    return load(path, **settings).posterior
