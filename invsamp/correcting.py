"""`correct`: a posterior whose coarse fidelities say what the finest would, as nearly as a map learned of pairs can."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from invsamp.arguments import boolean, instance, integer, one_of, optional
from invsamp.fidelities.correction import Corrected, learn
from invsamp.ladder import Sampler
from invsamp.posing.posterior.posterior import Posterior
from invsamp.results.run import Run
from invsamp.sampling import sample
from invsamp.surrogates.pairs import KINDS, Kind


def correct(
    posterior: Posterior,
    states: npt.ArrayLike | Run | None = None,
    kind: Kind | Literal["auto"] = "auto",
    *,
    enhanced: bool = False,
    pairs: int = 100,
    sampler: Sampler | None = None,
    draws: int = 1000,
    chains: int = 8,
    seed: int = 0,
    progress: bool = True,
) -> Corrected:
    r"""Correct the coarse fidelities by pairs of solves; the posterior with corrected fidelities.

    The corrected model of a coarse fidelity is :math:`B\,y(\theta) + c`, y its observations. B and c fit the fine
    model's observations at the states best: by a ridge regression of the difference, whose ridge has the least
    generalized cross-validation. So few pairs give little more than an offset. The correction is frozen: a sampler of
    the posterior that is returned moves by corrected models on hot rungs, and the target of the cold rung
    is that of the finest model, as before. Each level is corrected towards the finest.

    Parameters
    ----------
    posterior : Posterior
        With several fidelities, and a forward model for each.
    states : array_like, shape (n, dimension), or Run, optional
        Where the models are solved, each once and without gradients. By default draws of the posterior of the coarsest
        fidelity, which is sampled first: at the prior's draws a map would have to hold where it does not matter.
    kind : "auto", "none", "offset", "affine" or "polynomial"
        "auto" takes for each fidelity what leaves the least sd of the energy on pairs that were held out, and the
        plainer one where they are nearly equal. "none" corrects nothing and reports what there is. "polynomial", for
        few unknowns, adds a polynomial of these. Its degree is the highest up to 4 that has at most a third as many
        products as there are pairs. Far beyond the states of the pairs it stays what it is. A coarse model that
        predicts a part of the data alone (``data_indices``) predicts all of them once it is "affine".
    enhanced : bool
        Whether the covariance of what the map leaves, on pairs that were held out, is added to the noise of the coarse
        target (the enhanced error model, or Bayesian approximation error). That target is wider then: less is lost
        where the model is far off, and more is refused elsewhere. For `GaussianNoise` of a known scale.
    pairs : int
        How many states are taken of a run, evenly spaced; `ValueError` for fewer than ten.
    sampler, draws, chains, progress
        Of the run of the coarsest fidelity, as of `invsamp.sample`.
    seed : int
        Of that run, and of the choice of the pairs that are held out.

    Returns
    -------
    Corrected

    Raises
    ------
    ValueError
        If an argument is wrong, there is one fidelity alone or no forward model, or fewer than ten pairs could be
        solved.

    Notes
    -----
    A model with a method ``fit(theta, observations)`` that returns a fitted model (a surrogate of one's own) is fitted
    first, to the finest model's observations at the same states, p of ``theta`` its own parameters.

    Costs of solves are those that the posterior states (``costs``), else those that all models count (``work``). Else
    each fidelity is assumed to cost ten times as much as the one before it. No clock decides.

    Examples
    --------
    Three lines in place of one, where fine solves are expensive::

        corrected = iv.correct(posterior)
        print(corrected)  # what was learned, and whether it pays
        run = iv.sample(corrected.posterior, iv.samplers.surrogate_exchange(), thin=20, start=corrected.draws(4))

    >>> import numpy as np
    >>> import invsamp as iv
    >>> def jacobian(a):
    ...     return np.ones((len(a), 1, 1))
    ...
    >>> coarse = iv.with_jacobian(lambda a: a + 0.3, jacobian)
    >>> fine = iv.with_jacobian(lambda a: a, jacobian)
    >>> prior, noise = iv.Prior(a=iv.Normal(0.0, 1.0)), iv.GaussianNoise(0.5)
    >>> posterior = iv.Posterior(prior, {"coarse": coarse, "fine": fine}, data=[1.0], noise=noise)
    >>> corrected = iv.correct(posterior, np.linspace(-1.0, 2.0, 12)[:, None], progress=False)
    >>> corrected.posterior.predict([[1.0]], fidelity="coarse").round(2)
    array([[1.]])
    """
    instance("posterior", posterior, Posterior, "a Posterior")
    one_of("kind", kind, ("auto", *KINDS))
    integer("pairs", pairs, least=10), integer("seed", seed, least=0), boolean("progress", progress)
    boolean("enhanced", enhanced)
    integer("draws", draws, least=1), integer("chains", chains, least=1)
    optional(instance, "sampler", sampler, Sampler, "a Sampler, as the presets return it")
    if states is not None and not isinstance(states, Run):
        return learn(posterior, states, kind, seed, enhanced)
    coarsest = posterior.fidelities[0]
    solves: dict[str, int] = {}
    if states is None:
        if len(posterior.fidelities) == 1 or not posterior.predicts:
            learn(posterior, np.zeros((1, posterior.dimension)), kind, seed, enhanced)  # which says what is wrong
        alone = posterior.alone(coarsest)
        states = sample(alone, sampler, draws=draws, chains=chains, seed=seed, progress=progress)
        solves[coarsest] = states.report["evaluations"][coarsest]
    found = learn(posterior, _spread(states, pairs), kind, seed, enhanced)
    return replace(found, evaluations={name: n + solves.get(name, 0) for name, n in found.evaluations.items()})


def _spread(run: Run, pairs: int) -> npt.NDArray[np.float64]:
    """States of all chains of a run in turn, evenly spaced."""
    theta = run.theta
    rows = theta.swapaxes(0, 1).reshape(-1, theta.shape[-1])
    return rows[np.linspace(0, len(rows) - 1, min(pairs, len(rows))).round().astype(int)]
