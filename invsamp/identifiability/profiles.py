"""Profile likelihoods: how well data know a parameter, where all others are fitted anew at each of its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import chdtri

from invsamp import arguments
from invsamp.arguments import instance, integer, one_of, optional, real
from invsamp.contract import Array, Problem
from invsamp.domains import Domain
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Asks, Estimate, Request, answered
from invsamp.maximizing import SCALE_DRAWS, maximize
from invsamp.modes import Modes
from invsamp.modes.descent import Descent, descend
from invsamp.posing.names import labels
from invsamp.posing.posterior import Posterior
from invsamp.sampler import as_problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Rise of the energy from point to point, as a share of the rise at which a profile ends; and above which a step is
#: made again, and shorter.
SHARE, MOST_SHARE = 0.2, 0.6
#: Points of one side at the most, and halvings of the first step that come to one too short to try: what is left where
#: steps end outside, or cannot be fitted.
MOST_POINTS, HALVINGS = 60, 10
#: Energy that each fit leaves to gain.
TOLERANCE = 1e-4
#: Scales from the best point at which a side without end is left.
FARTHEST = 1e4
#: Of the way between two walls, what descents that begin at modes found in logits keep from these.
INSET = 1e-6
#: How a side of an interval ends.
ENDS = ("reached", "wall", "open", "failed")


class Interval(NamedTuple):
    """Of a parameter: where its profile is less than the level's rise above its least value."""

    low: float
    high: float
    low_end: str  # of ENDS: only "reached" is a bound that the data set
    high_end: str


@dataclass(frozen=True)
class Profile:
    """Of one parameter: its values, from low to high, with what the others are fitted to.

    Attributes
    ----------
    values, energies : ndarray, shape (n,)
        Of the parameter, and the least energy at each.
    theta : ndarray, shape (n, d)
        All parameters there.
    best : float
        The parameter where the energy is least.
    ends : tuple of str
        How the walks down and up ended: "reached" the rise that was asked for; at a "wall" of the domain; "open",
        where the profile stays low as far as it was followed; "failed", where fits came to no end.
    failed : tuple of float
        Values at which no fit was had.
    """

    values: Array
    energies: Array
    theta: Array
    best: float
    ends: tuple[str, str]
    failed: tuple[float, ...]

    def interval(self, level: float) -> Interval:
        """Where twice the rise of the energy is below the quantile of chi-squared with one degree of freedom."""
        root = np.sqrt(2.0 * np.maximum(self.energies - self.energies.min(), 0.0))
        bound, at = float(np.sqrt(chdtri(1, 1 - level))), int(np.argmin(self.energies))
        low, low_end = _crossing(self.values[at::-1], root[at::-1], bound, self.ends[0])
        high, high_end = _crossing(self.values[at:], root[at:], bound, self.ends[1])
        return Interval(low, high, low_end, high_end)


@dataclass(frozen=True)
class Profiles:
    """What `profile` found; prints as a table, ``profiles[name]`` is one parameter's.

    Attributes
    ----------
    profiles : dict of str to Profile
    of : str
        "likelihood" or "posterior".
    level : float
        To which intervals are known.
    evaluations : int
    lower : float
        By how much some fit was lower than where the walks began: above .01 the start was no maximum.
    """

    profiles: dict[str, Profile]
    of: str
    level: float
    evaluations: int
    lower: float

    def __getitem__(self, name: str) -> Profile:
        return self.profiles[one_of("name", name, self.profiles)]

    def intervals(self, level: float | None = None) -> dict[str, Interval]:
        """By name, at a level, that which was asked for by default.

        Raises
        ------
        ValueError
            If the level is above it: the walks did not go so far.
        """
        found = optional(real, "level", level, above=0, below=1)
        if found is not None and found > self.level:
            raise ValueError(f"level must be at most {self.level:g}, to which profiles go, got {found:g}")
        return {name: one.interval(self.level if found is None else found) for name, one in self.profiles.items()}

    def plot(self, names: Sequence[str] | None = None) -> Figure:
        """The rise of the energy over each parameter, with the level's interval; a panel for each."""
        from invsamp.plots.profiles import plotted

        known = list(self.profiles)
        chosen = known if names is None else [one_of("names", n, known) for n in arguments.names("names", names)]
        return plotted({name: self.profiles[name] for name in chosen}, self.level, self.of)

    def __str__(self) -> str:
        words = {"wall": "at a wall", "open": "no end found", "failed": "fits failed there", "reached": ""}
        lines = [f"profile {self.of}, intervals at {self.level:.0%}; {self.evaluations:,} evaluations"]
        for name, found in self.intervals().items():
            ends = [
                f"{side} {words[end]}"
                for side, end in (("below", found.low_end), ("above", found.high_end))
                if words[end]
            ]
            told = f" ({', '.join(ends)})" if ends else ""
            lines.append(f"{name}: {self.profiles[name].best:.5g}, from {found.low:.5g} to {found.high:.5g}{told}")
            if count := len(self.profiles[name].failed):
                lines.append(f"  at {count} values no fit was had, the first at {self.profiles[name].failed[0]:.5g}")
        if self.lower > 0.01:
            lines.append(
                f"a fit is lower than the start by {self.lower:.3g}: it was no maximum. Give maximize() more starts"
            )
        return "\n".join(lines)


def profile(
    problem: Problem,
    names: Sequence[str] | None = None,
    *,
    modes: Modes | None = None,
    of: str = "likelihood",
    level: float = 0.95,
    most: int = 500,
    seed: int | None = None,
) -> Profiles:
    r"""Profiles of parameters: at each value of one, the least energy over all others.

    From the best point known each parameter goes down and up, in steps that follow the rise of the energy, until
    twice the rise is above the level's quantile of chi-squared; each fit begins where the last ones lead. An
    interval at level q,

    .. math:: \{\theta_i : 2 (E_i(\theta_i) - \min E) \le \chi^2_{1, q}\},

    holds the truth in a share q of data sets where the likelihood is near a Gaussian one.

    Parameters
    ----------
    problem : Problem
    names : sequence of str, optional
        Of single parameters, such as ``k`` or ``k[0]``. Default: all.
    modes : Modes, optional
        Where to begin. Default: `maximize` is asked.
    of : "likelihood" or "posterior"
        The misfit alone, within the prior's support and the domain, or with the prior energy of positions. For the
        misfit logits are walls again (`Posterior.with_walls`): it may fall as far as an end of the support.
    level : float in (0, 1)
        Of the intervals.
    most : int
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
        for and the problem does not tell it apart.

    References
    ----------
    Raue et al. (2009), "Structural and practical identifiability analysis of partially observed dynamical models by
    exploiting the profile likelihood", Bioinformatics 25, section 2.3.
    """
    problem = as_problem(problem)
    one_of("of", of, ("likelihood", "posterior")), real("level", level, above=0, below=1)
    integer("most", most, least=10), optional(instance, "modes", modes, Modes, "a Modes, as maximize() returns it")
    rng = np.random.default_rng(optional(integer, "seed", seed, least=0))
    known = labels(problem.shapes)
    wanted = known if names is None else tuple(one_of("names", n, known) for n in arguments.names("names", names))
    name = problem.fidelities[-1]
    if of == "likelihood" and not CountedPotential(problem.potential(name), name).split:
        raise ValueError("of must be 'posterior' where a problem does not tell its likelihood apart, got 'likelihood'")
    if modes is None:
        modes = maximize(problem, seed=seed)
    if of == "likelihood" and isinstance(problem, Posterior):
        problem, modes = _walled(problem, modes)
    solver = CountedPotential(problem.potential(name), name)
    scale = problem.sample_start(rng, SCALE_DRAWS).std(axis=0)
    _check_apart(problem, modes.position[0], scale, known, wanted)
    solver.apart = of == "likelihood"
    walks = _Walks(problem, solver, scale, most, 0.5 * float(chdtri(1, 1 - level)), of == "likelihood")
    best, start = walks.begin(modes)
    found = {label: walks.walk(best, known.index(label), modes) for label in wanted}
    lower = max(start - float(one.energies.min()) for one in found.values())
    return Profiles(found, of, float(level), solver.evaluations, max(lower, 0.0))


def _walled(posterior: Posterior, modes: Modes) -> tuple[Posterior, Modes]:
    """The posterior with walls in place of logits, along which a likelihood may fall for ever, and its modes."""
    walled = posterior.with_walls()
    if walled.coordinates == posterior.coordinates:
        return posterior, modes
    position = walled.to_position(modes.theta)
    for k, wall in enumerate(walled.coordinates.transforms):
        if wall != posterior.coordinates.transforms[k]:
            lower, upper = (float(wall.forward(end[k])) for end in posterior.prior.support)
            inside = INSET * (upper - lower)
            position[:, k] = np.clip(position[:, k], lower + inside, upper - inside)
    return walled, maximize(walled, walled.to_theta(position))


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


@dataclass
class _Side:
    """A walk down or up from the best point."""

    positions: list[Array]
    energies: list[float]
    step: float
    least: float
    failed: list[float] = field(default_factory=list)
    end: str = ""

    def start(self, k: int, domain: Domain) -> Array:
        """Where the next fit begins: straight on from the last two, within the domain if that is inside."""
        here = self.positions[-1]
        ahead = here.copy()
        if len(self.positions) > 1:
            before = self.positions[-2]
            ahead = here + (here - before) * (self.step / (here[k] - before[k]))
        ahead[k] = here[k] + self.step
        if not domain.contains(ahead[None])[0]:
            ahead = here.copy()
            ahead[k] += self.step
        return ahead

    def shorten(self, end: str) -> None:
        """Try nearer by, or end so."""
        self.step *= 0.5
        if abs(self.step) < self.least:
            self.end = end

    def overshot(self, energy: float, rise: float) -> bool:
        """Whether a fit has risen by too much, as after a first step at a guess: then the next is nearer by."""
        gain = energy - self.energies[-1]
        shorter = self.step * float(np.clip(np.sqrt(SHARE * rise / max(gain, 1e-12)), 0.1, 0.5))
        if gain <= MOST_SHARE * rise or abs(shorter) < self.least:
            return False
        self.step = shorter
        return True

    def take(self, position: Array, energy: float, rise: float) -> None:
        """A fit that was had; the next step is to rise by its share."""
        gain = energy - self.energies[-1]
        self.positions.append(position)
        self.energies.append(energy)
        self.step *= float(np.clip(np.sqrt(SHARE * rise / max(gain, 1e-12)), 0.5, 2.0))
        if energy - self.energies[0] > 1.05 * rise:
            self.end = "reached"


@dataclass(frozen=True)
class _Walks:
    problem: Problem
    solver: CountedPotential
    scale: Array
    most: int
    rise: float
    likelihood: bool

    def begin(self, modes: Modes) -> tuple[Array, float]:
        """The best point, and its energy."""
        end = self._fit(modes.position, self.scale)
        k = int(np.argmin(end.energy))
        return end.position[k], float(end.energy[k])

    def walk(self, best: Array, k: int, modes: Modes) -> Profile:
        """Both sides of one parameter, together."""
        spread = float(modes.sds[0, k])
        step = np.sqrt(2.0 * self.rise * SHARE) * (spread if np.isfinite(spread) else 0.1 * float(self.scale[k]))
        fixed = np.where(np.arange(len(best)) == k, 0.0, self.scale)
        energy = float(self._fit(best[None], fixed).energy[0])
        sides = [_Side([best], [energy], sign * step, step / 2.0**HALVINGS) for sign in (-1.0, 1.0)]
        domain: Domain = self.problem.sampling_domain
        while active := [side for side in sides if not side.end]:
            starts = np.stack([side.start(k, domain) for side in active])
            inside = domain.contains(starts)
            for j in np.flatnonzero(~inside):
                active[j].shorten("wall")
            if not inside.any():
                continue
            end = self._fit(starts[inside], fixed)
            good = end.converged & np.isfinite(end.energy)
            for row, j in enumerate(np.flatnonzero(inside)):
                side = active[j]
                if not good[row]:
                    side.failed.append(float(self.problem.to_theta(starts[j : j + 1])[0, k]))
                    side.shorten("failed")
                    continue
                if side.overshot(float(end.energy[row]), self.rise):
                    continue
                side.take(end.position[row], float(end.energy[row]), self.rise)
                away = abs(end.position[row, k] - best[k])
                if not side.end and (len(side.positions) > MOST_POINTS or away > FARTHEST * self.scale[k]):
                    side.end = "open"
        return self._profile(sides, k)

    def _profile(self, sides: list[_Side], k: int) -> Profile:
        down, up = sides
        theta = self.problem.to_theta(np.array(down.positions[:0:-1] + up.positions))
        energies = np.array(down.energies[:0:-1] + up.energies)
        ends, best = (down.end, up.end), float(theta[int(np.argmin(energies)), k])
        if theta[0, k] > theta[-1, k]:  # the parameter falls where its coordinate rises
            theta, energies, ends = theta[::-1], energies[::-1], (up.end, down.end)
        return Profile(theta[:, k], energies, theta, best, ends, tuple(down.failed + up.failed))

    def _fit(self, positions: Array, scale: Array) -> Descent:
        domain = self.problem.sampling_domain
        asking = descend(self._evaluating(), positions, scale, domain, tolerance=TOLERANCE, most=self.most)
        return answered(asking, self.solver.answer_all)

    def _evaluating(self) -> Callable[[Array], Asks[Estimate]]:
        def evaluate(at: Array) -> Asks[Estimate]:
            (found,) = yield (Request(self.solver.fidelity, at, "apart" if self.likelihood else True),)
            if not self.likelihood:
                return found
            assert found.prior is not None and found.prior_gradient is not None  # as they were asked for
            energy = np.full(len(at), np.inf)
            known = np.isfinite(found.energy)
            energy[known] = found.energy[known] - found.prior[known]
            return Estimate(energy, found.gradient - found.prior_gradient, failed=found.failed)

        return evaluate


def _crossing(values: Array, root: Array, bound: float, end: str) -> tuple[float, str]:
    """Where a walk away from the least value first passes the bound: between two points as a straight line."""
    over = np.flatnonzero(root > bound)
    if not len(over):
        return float(values[-1]), end
    j = int(over[0])
    share = (bound - root[j - 1]) / (root[j] - root[j - 1])
    return float(values[j - 1] + share * (values[j] - values[j - 1])), "reached"
