"""Profile likelihoods: how well data know a parameter, where all others are fitted anew at each of its values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtri

from invsamp import arguments, html
from invsamp.arguments import instance, integer, one_of, optional, real
from invsamp.evaluate.counted import CountedPotential
from invsamp.identifiability.intervals import Branch, Interval, union
from invsamp.identifiability.walks import Walks
from invsamp.likelihood_maxima import check_apart, within_bounds
from invsamp.maximizing import SCALE_DRAWS, maximize
from invsamp.modes import Modes
from invsamp.posing.expressions.variable_names import check_modes, labels_of
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array, Problem
from invsamp.sampling import as_problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Profile:
    """Of one parameter: its values, from low to high, with what the others are fitted to.

    Attributes
    ----------
    branches : tuple of Branch
        As it was followed from each mode within the level, the lowest mode first. The profile is the lowest of them.
    best : float
        The parameter where the energy is least.
    failed : tuple of float
        Values at which no fit converged.
    """

    branches: tuple[Branch, ...]
    best: float
    failed: tuple[float, ...]

    @property
    def values(self) -> Array:
        """Of the parameter, at points of the lowest branch there (n,)."""
        return self._lowest[0]

    @property
    def energies(self) -> Array:
        """The least energy at each (n,)."""
        return self._lowest[1]

    @property
    def theta(self) -> Array:
        """All parameters there (n, d)."""
        return self._lowest[2]

    @cached_property
    def _lowest(self) -> tuple[Array, Array, Array]:
        """Points of branches at which no other one is lower, nor is an earlier one as low."""
        kept = []
        for k, branch in enumerate(self.branches):
            low = np.ones(len(branch.values), dtype=bool)
            for j, other in enumerate(self.branches):
                there = np.interp(branch.values, other.values, other.energies, left=np.inf, right=np.inf)
                low &= (branch.energies <= there) if j >= k else (branch.energies < there)
            kept.append((branch.values[low], branch.energies[low], branch.theta[low]))
        values, energies, theta = (np.concatenate(parts) for parts in zip(*kept, strict=True))
        order = np.argsort(values, kind="stable")
        return values[order], energies[order], theta[order]

    def intervals(self, level: float) -> tuple[Interval, ...]:
        """Where twice the rise of the energy is below the quantile of chi-squared with one degree of freedom.

        From low to high; more than one where the profile is above it in between.
        """
        least = min(float(one.energies.min()) for one in self.branches)
        most = least + 0.5 * float(chdtri(1, 1 - level))
        return union(found for one in self.branches for found in one.intervals(most))


@dataclass(frozen=True)
class Profiles:
    """The result of `profile`; prints as a table, ``profiles[name]`` is one parameter's.

    Attributes
    ----------
    profiles : dict of str to Profile
    of : str
        "likelihood" or "posterior".
    level : float
        To which intervals are known.
    evaluations, function_calls : int
        The latter counts how often the function behind them was called.
    lower : float
        By how much some fit was lower than where the walks began: above .01 the start was no maximum.
    """

    profiles: dict[str, Profile]
    of: str
    level: float
    evaluations: int
    function_calls: int
    lower: float

    def __getitem__(self, name: str) -> Profile:
        return self.profiles[one_of("name", name, self.profiles)]

    def intervals(self, level: float | None = None) -> dict[str, tuple[Interval, ...]]:
        """By name, at a level, that which was asked for by default; several where the profile has several minima.

        Raises
        ------
        ValueError
            If the level is above it: the walks did not go so far.
        """
        found = optional(real, "level", level, above=0, below=1)
        if found is not None and found > self.level:
            raise ValueError(f"level must be at most {self.level:g}, to which profiles go, got {found:g}")
        return {name: one.intervals(self.level if found is None else found) for name, one in self.profiles.items()}

    def plot(self, names: Sequence[str] | None = None, *, ax: Axes | None = None) -> Figure:
        """The rise of the energy over each parameter, with the level's intervals; a panel for each of eight at most.

        Of a single parameter it can be drawn in a panel ``ax``.
        """
        from invsamp.plots.profiles import plotted

        known = list(self.profiles)
        chosen = known if names is None else [one_of("names", n, known) for n in arguments.names("names", names)]
        return plotted({name: self.profiles[name] for name in chosen}, self.level, self.of, ax)

    def _repr_html_(self) -> str:
        rows = [
            [
                name,
                self.profiles[name].best,
                " and ".join(_words(one) for one in found),
                len(self.profiles[name].failed),
            ]
            for name, found in self.intervals().items()
        ]
        table = html.table(self._headline(), ["parameter", "best", "interval", "values without a fit"], rows)
        return table + html.sentences(self._notes())

    def _headline(self) -> str:
        calls = f" ({self.function_calls:,} function calls)" if self.function_calls != self.evaluations else ""
        return f"profile {self.of}, intervals at {self.level:.0%}; {self.evaluations:,} evaluations{calls}"

    def _notes(self) -> list[str]:
        if self.lower <= 0.01:
            return []
        return [
            f"a fit has an energy lower than the start by {self.lower:.3g}, so the start was no maximum. Give "
            "maximize() more starts"
        ]

    def __str__(self) -> str:
        lines = [self._headline()]
        for name, found in self.intervals().items():
            lines.append(f"{name}: {self.profiles[name].best:.5g}, {' and '.join(_words(one) for one in found)}")
            if count := len(self.profiles[name].failed):
                lines.append(f"  at {count} values no fit converged, the first at {self.profiles[name].failed[0]:.5g}")
        return "\n".join([*lines, *self._notes()])


def profile(
    problem: Problem,
    names: Sequence[str] | None = None,
    *,
    modes: Modes | None = None,
    of: str = "likelihood",
    level: float = 0.95,
    max_evaluations: int = 500,
    seed: int | None = None,
) -> Profiles:
    r"""Profiles of parameters: at each value of one, the least energy over all others.

    From each mode within the level each parameter goes down and up, in steps that follow the rise of the energy. They
    end where twice the rise above the lowest mode exceeds the level's quantile of chi-squared. Each fit begins at the
    extrapolation of the last ones. The profile is the lowest of these branches. The set at level q,

    .. math:: \{\theta_i : 2 (E_i(\theta_i) - \min E) \le \chi^2_{1, q}\},

    is an interval or a union of several. It holds the truth in a share q of data sets where the likelihood is near a
    Gaussian one. Modes that `maximize` has not found are missing from it.

    Parameters
    ----------
    problem : Problem
    names : sequence of str, optional
        Of single parameters, such as ``k`` or ``k[0]``. Default: all.
    modes : Modes, optional
        Where to begin. Default: those that `maximize` finds.
    of : "likelihood" or "posterior"
        The misfit alone, within the prior's support and the domain, or with the prior energy of positions. For the
        misfit logits are bounds again (`Posterior.with_bounds`): it may fall as far as an end of the support.
    level : float in (0, 1)
        Of the intervals. A mode is within it if its own rise is.
    max_evaluations : int
        Evaluations of one fit.
    seed : int, optional
        Of `maximize`, and of the prior draws whose spread is the scale of the first steps.

    Returns
    -------
    Profiles

    Raises
    ------
    ValueError
        If a name is unknown, or that of a parameter which is sampled together with others. If the likelihood is asked
        for and the problem does not give it apart.

    References
    ----------
    Raue et al. (2009), "Structural and practical identifiability analysis of partially observed dynamical models by
    exploiting the profile likelihood", Bioinformatics 25, section 2.3.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> posterior = iv.Posterior(
    ...     iv.Prior(a=iv.Normal(0.0, 1.0)),
    ...     iv.with_jacobian(lambda a: a, lambda a: np.ones((len(a), 1, 1))),
    ...     data=[1.0],
    ...     noise=iv.GaussianNoise(0.5),
    ... )
    >>> profiles = iv.profile(posterior, seed=1)
    >>> interval = profiles.intervals(0.95)["a"][0]
    >>> [round(float(end), 1) for end in interval[:2]]  # 1 -+ 1.96 * 0.5
    [0.0, 2.0]
    """
    problem = as_problem(problem)
    one_of("of", of, ("likelihood", "posterior")), real("level", level, above=0, below=1)
    integer("max_evaluations", max_evaluations, least=10)
    optional(instance, "modes", modes, Modes, "a Modes, as maximize() returns it")
    rng = np.random.default_rng(optional(integer, "seed", seed, least=0))
    known = labels_of(problem)
    wanted = known if names is None else tuple(one_of("names", n, known) for n in arguments.names("names", names))
    name = problem.fidelities[-1]
    check_apart(problem, of, None)
    if modes is None:
        modes = maximize(problem, seed=seed)
    check_modes("modes", modes.labels, problem)
    if of == "likelihood" and isinstance(problem, Posterior):
        problem, modes = _walled(problem, modes)
    solver = CountedPotential(problem.potential(name), name)
    scale = problem.sample_start(rng, SCALE_DRAWS).std(axis=0)
    _check_apart(problem, modes.position[0], scale, known, wanted)
    solver.apart = of == "likelihood"
    walks = Walks(problem, solver, scale, max_evaluations, 0.5 * float(chdtri(1, 1 - level)), of == "likelihood")
    begun = walks.begin(modes)
    found = {label: _profile(*walks.along(known.index(label), begun), known.index(label)) for label in wanted}
    lower = max(begun[0].energy - float(one.energies.min()) for one in found.values())
    return Profiles(found, of, float(level), solver.evaluations, solver.calls, max(lower, 0.0))


def _profile(branches: tuple[Branch, ...], failed: tuple[float, ...], k: int) -> Profile:
    lowest = min(branches, key=lambda each: float(each.energies.min()))
    return Profile(branches, float(lowest.theta[int(np.argmin(lowest.energies)), k]), failed)


def _words(found: Interval) -> str:
    words = {"bound": "at a bound", "open": "no end found", "failed": "fits failed there", "reached": ""}
    sides = (("below", found.low_end), ("above", found.high_end))
    ends = ", ".join(f"{side} {words[end]}" for side, end in sides if words[end])
    return f"from {found.low:.5g} to {found.high:.5g}" + (f" ({ends})" if ends else "")


def _walled(posterior: Posterior, modes: Modes) -> tuple[Posterior, Modes]:
    """The posterior with bounds in place of logits, along which a likelihood may fall forever, and its modes."""
    bounded = posterior.with_bounds()
    if bounded.coordinates == posterior.coordinates:
        return posterior, modes
    return bounded, maximize(bounded, bounded.to_theta(within_bounds(posterior, modes.theta)))


def _check_apart(problem: Problem, at: Array, scale: Array, known: Sequence[str], wanted: Sequence[str]) -> None:
    """`ValueError` if a parameter is not a function of a coordinate of its own."""
    d = len(at)
    moved = problem.to_theta(at + 1e-3 * np.diag(scale)) - problem.to_theta(at[None])
    for name in wanted:
        k = known.index(name)
        others = [known[j] for j in range(d) if j != k and moved[j, k] != 0.0]
        if others or moved[k, k] == 0.0:
            raise ValueError(
                f"names must be of parameters that are sampled by themselves, got {name!r}, which is sampled together "
                f"with {', '.join(others[:3])}"
            )
