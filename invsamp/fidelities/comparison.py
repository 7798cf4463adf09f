"""How good and how cheap is each fidelity, and what can a replica-exchange ladder make of them?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from invsamp.arguments import instance, integer, one_of
from invsamp.estimators.contract import Estimator
from invsamp.evaluate.counted import CountedPotential
from invsamp.fidelities import advice
from invsamp.fidelities.compared import Compared, States
from invsamp.fidelities.levels import Level, agreement, noise_of, seconds_of, solve
from invsamp.fidelities.pairs import Swaps, hottest_of, ladder_of
from invsamp.fidelities.reweighting import weights
from invsamp.fidelities.states import gather
from invsamp.ladder.rung import ESTIMATOR
from invsamp.posing.expressions.variable_names import labels_of
from invsamp.protocols import Problem
from invsamp.results.run import Run

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

#: States that are needed to say anything.
LEAST_STATES = 10


class FidelityComparison(Compared):
    """Result of `compare`; prints as tables with advice.

    Attributes
    ----------
    levels : tuple of Level
        From the coarsest to the finest.
    pairs : tuple of Pair
        Neighbors on the proposed ladder, from the coldest.
    hot_temperatures : dict of str to float
        Hottest temperature that the states cover, at which a level still swaps with the cold rung at an expected
        rate of 0.2; NaN where there is none.
    rates : dict of str to ndarray
        Expected swap rate of every level with the cold rung at `invsamp.fidelities.pairs.TEMPERATURES`.
    labels : tuple of str
        Names of theta's columns.
    states : States

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> def jacobian(a):
    ...     return np.ones((len(a), 1, 1))
    ...
    >>> coarse = iv.with_jacobian(lambda a: a + 0.3, jacobian)
    >>> fine = iv.with_jacobian(lambda a: a, jacobian)
    >>> prior, noise = iv.Prior(a=iv.Normal(0.0, 1.0)), iv.GaussianNoise(0.5)
    >>> posterior = iv.Posterior(prior, {"coarse": coarse, "fine": fine}, data=[1.0], noise=noise)
    >>> table = iv.fidelities.compare(posterior, 20).to_dataframe("levels")
    >>> len(table)
    2
    """

    @property
    def advice(self) -> tuple[str, ...]:
        """Which swap rule and which temperature suit the coarse levels, in words."""
        return advice.advice(self)

    def __str__(self) -> str:
        return advice.table(self)

    def to_dataframe(self, part: str = "levels") -> pd.DataFrame:
        """A row per level, or with ``part="pairs"`` per pair of neighboring rungs; columns as the attributes.

        Raises
        ------
        ValueError
            If ``part`` is neither.
        """
        import pandas as pd

        if one_of("part", part, ("levels", "pairs")) == "levels":
            return pd.DataFrame([asdict(level) for level in self.levels]).set_index("name")
        return pd.DataFrame([asdict(pair) for pair in self.pairs])

    def plot(self) -> Figure:
        """Energies of each level against the finest, their difference over theta, costs and expected swap rates."""
        from invsamp.fidelities.figure import plotted  # matplotlib waits for its first use

        return plotted(self)


def compare(
    posterior: Problem,
    thetas: npt.ArrayLike | Run | int = 300,
    temperatures: Sequence[float] | None = None,
    fidelities: Sequence[str | int] | None = None,
    *,
    estimator: Estimator | Mapping[str, Estimator] | None = None,
    max_states: int = 600,
    probes: int = 20,
    seed: int = 0,
) -> FidelityComparison:
    """Cost, bias, noise and agreement of every fidelity, and what swaps between them would be like.

    Every level is solved at every state. How the levels agree is measured at the states as given. Swaps are forecast by
    reweighting the states to the rungs of the ladder, which needs states typical of each: a short run of any ladder
    is best, whose rungs' draws are all used together.

    Parameters
    ----------
    posterior : Posterior or Target
        With two or more fidelities.
    thetas : array_like (n, dimension), Run, or int
        Natural parameters, taken as draws of the posterior of the finest fidelity; or a run, whose cold and hot draws
        are taken, evenly thinned. A number means that many draws from the prior, of which few are typical of a sharp
        posterior.
    temperatures : sequence of float, optional
        A ladder, from 1 upwards, whose swaps are to be forecast. Default: that of the run; else, for each coarser
        level, the finest at 1 with that level at the hottest temperature that promises a swap rate of 0.2.
    fidelities : sequence of str or int, optional
        One for each temperature, as in the presets: by default the finest, then one coarser each, down to the
        coarsest; that of the run where the ladder is.
    estimator : Estimator or mapping of fidelities to Estimator, optional
        How energies and gradients will be estimated, so that its noise counts; those that a mapping leaves out are
        exact. The levels themselves are compared without noise.
    max_states : int
        States taken from a run.
    probes : int, >= 2
        Repeated estimates per state, for the noise of an estimator that does not know its own.
    seed : int
        Of prior draws and noise.

    Returns
    -------
    FidelityComparison

    Raises
    ------
    ValueError
        If an argument is wrong, or fewer than 10 states can be solved by all levels.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> def jacobian(a):
    ...     return np.ones((len(a), 1, 1))
    ...
    >>> coarse = iv.with_jacobian(lambda a: a + 0.3, jacobian)
    >>> fine = iv.with_jacobian(lambda a: a, jacobian)
    >>> prior, noise = iv.Prior(a=iv.Normal(0.0, 1.0)), iv.GaussianNoise(0.5)
    >>> posterior = iv.Posterior(prior, {"coarse": coarse, "fine": fine}, data=[1.0], noise=noise)
    >>> comparison = iv.fidelities.compare(posterior, 20)
    >>> [level.name for level in comparison.levels]
    ['coarse', 'fine']
    """
    instance("posterior", posterior, Problem, "a Posterior or a Target")
    names = tuple(posterior.fidelities)
    if len(names) < 2:
        raise ValueError(f"posterior must have at least two fidelities to compare, got {list(names)}")
    max_states, probes = integer("max_states", max_states, least=LEAST_STATES), integer("probes", probes, least=2)
    rng = np.random.default_rng(integer("seed", seed, least=0))
    ladder = ladder_of(names, thetas, temperatures, fidelities)
    estimators = _estimators(names, estimator)
    given = gather(posterior, thetas, max_states, rng)
    levels: dict[str, CountedPotential] = {}
    for name in names:
        levels[name] = CountedPotential(posterior.potential(name), name, levels)
    solved = [solve(level, given.position) for level in levels.values()]
    energies, gradients = (np.stack(part) for part in zip(*solved, strict=True))
    failed = (~np.isfinite(energies)).sum(axis=1)
    kept = np.isfinite(energies).all(axis=0)
    if kept.sum() < LEAST_STATES:
        raise ValueError(
            f"thetas must hold at least {LEAST_STATES} states that every fidelity can solve, got {int(kept.sum())} of "
            f"{len(kept)}; failed solves by fidelity: {dict(zip(names, failed.tolist(), strict=True))}"
        )
    mixture = given.log_mixture(dict(zip(names, energies, strict=True)))[kept]
    position, energies, gradients = given.position[kept], energies[:, kept], gradients[:, kept]
    noise = [noise_of(estimators.get(name), level, rng, position, probes) for name, level in levels.items()]
    seconds = [seconds_of(posterior, level) for level in levels.values()]
    table = tuple(
        Level(name, seconds[k], seconds[k] / seconds[-1], *agreement(energies[[k, -1]], gradients[[k, -1]]), *noise[k],
              int(failed[k]))
        for k, name in enumerate(names)
    )  # fmt: skip
    swaps = Swaps(dict(zip(names, energies, strict=True)), dict(zip(names, noise, strict=True)), mixture, names[-1])
    rates = {name: swaps.rates(name) for name in names[:-1]}
    hottest = {name: hottest_of(rate) for name, rate in rates.items()}
    if ladder is None:
        promising = [name for name in names[:-1] if math.isfinite(hottest[name])]
        pairs = tuple(swaps.pair((names[-1], 1.0), (name, hottest[name])) for name in promising)
    else:
        pairs = tuple(swaps.pair(*rungs) for rungs in itertools.pairwise(ladder))
    states = States(posterior.to_theta(position), energies, weights(energies[-1], mixture), given.source)
    return FidelityComparison(table, pairs, hottest, rates, labels_of(posterior), states)


def _estimators(
    names: tuple[str, ...], estimator: Estimator | Mapping[str, Estimator] | None
) -> Mapping[str, Estimator]:
    if estimator is None:
        return {}
    if not isinstance(estimator, Mapping):
        return dict.fromkeys(names, instance("estimator", estimator, Estimator, ESTIMATOR))
    if unknown := [name for name in estimator if name not in names]:
        raise ValueError(f"estimator must be given for fidelities out of {list(names)}, got {unknown}")
    for name, one in estimator.items():
        instance(f"estimator[{name!r}]", one, Estimator, ESTIMATOR)
    return estimator
