r"""Which of many candidate terms a system has: subset selection in gradient matching, with its stability.

Under Gaussian noise of known standard deviation a subset of k of the terms leaves a misfit :math:`E_k` (minus the
log-likelihood), and the Bayesian information criterion is :math:`2 E_k + k \log m` for m equations. The subset is found
by moves of one term at a time from the full library. Every subset is fitted within bounds of the coefficients.

Selection is repeated on complementary halves of the equations, drawn at random. The share of these in which a term is
chosen says how much its presence hangs on single data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import lsq_linear

from invsamp.arguments import array, integer, mapping, optional, real
from invsamp.solvers.gradient_matching.library import Array, Library
from invsamp.solvers.gradient_matching.matching import GradientMatching, match

#: Squared length, relative to that of its column, below which a term is a combination of others.
_DEPENDENT = 1e-10


@dataclass(frozen=True, eq=False)
class Selection:
    """The result of `select`; printing it shows the equations.

    Attributes
    ----------
    library : Library
        The terms that were chosen.
    parameters : tuple of str
        Their coefficients, those of ``library``.
    mean, sd : ndarray, shape (k,)
        Estimates of these coefficients, and their standard deviations given the terms; 0 at a bound.
    share : mapping from parameter to float
        Of all candidates, the share of the halves of the equations in which the term was chosen.
    noise : ndarray, shape (n_states,)
        Standard deviations of the noise that were used.
    """

    library: Library
    parameters: tuple[str, ...]
    mean: Array
    sd: Array
    share: Mapping[str, float]
    noise: Array

    def __str__(self) -> str:
        values = dict(zip(self.parameters, self.mean.tolist(), strict=True))
        lines = []
        for k, state in enumerate(self.library.states):
            parts = [
                f"({e.term.name})"
                if e.coefficient is None
                else _product(values[self.parameters[e.coefficient]], e.term.name)
                for e in self.library.entries
                if e.equation == k
            ]
            lines.append(f"{state}' = {' + '.join(parts) or '0'}".replace("+ -", "- "))
        return "\n".join(lines)


def select(
    library: Library,
    times: npt.ArrayLike,
    states: npt.ArrayLike,
    sd: npt.ArrayLike | None = None,
    *,
    derivatives: object = "weak",
    bounds: Mapping[str, tuple[float, float]] | None = None,
    threshold: float = 0.9,
    pairs: int = 50,
    seed: int = 0,
) -> Selection:
    """Choose among the terms of a library those that the data need.

    Parameters
    ----------
    library : Library
        The candidates.
    times, states
        As of `match`.
    sd : float or array, shape (n_states,), optional
        Standard deviation of the noise of what was measured, as of `GradientMatching.scale`. By default the one that
        the whole library leaves, up to the ratios of the states with which the equations were made.
    derivatives
        As of `match`.
    bounds : mapping from parameter to (lower, upper), optional
        Between which coefficients lie, such as ``{"decay": (-np.inf, 0.0)}``.
    threshold : float, in (0.5, 1)
        Share of the halves in which a term has to be chosen.
    pairs : int, >= 1
        Random splits of the equations into halves.
    seed : int
        Of the splits.

    Returns
    -------
    Selection

    Raises
    ------
    ValueError
        As of `match`; also for unknown names, bounds that leave no interval, and fewer than two equations.

    References
    ----------
    Schwarz (1978), Ann. Statist. 6(2), eq. (1), for the criterion. Shah and Samworth (2013), J. R. Stat. Soc. B 75(1),
    section 2, for selection on complementary halves, after Meinshausen and Buhlmann (2010).

    Examples
    --------
    >>> import numpy as np
    >>> from invsamp.solvers.gradient_matching import linear_in_parameters, select
    >>> times = np.linspace(0, 10, 501)
    >>> states = np.column_stack([np.cos(2 * times), -np.sin(2 * times)])
    >>> states += 1e-3 * np.random.default_rng(0).standard_normal(states.shape)
    >>> library = linear_in_parameters(
    ...     lambda t, x, p: (p[0] * x[0] + p[1] * x[1], p[2] * x[0] + p[3] * x[1]),
    ...     states=("x", "v"),
    ...     parameters=("xx", "xv", "vx", "vv"),
    ... )
    >>> select(library, times, states, 1e-3).parameters
    ('xv', 'vx')
    """
    matching = match(library, times, states, derivatives)
    threshold = real("threshold", threshold, above=0.5, below=1.0)
    pairs, seed = integer("pairs", pairs, least=1), integer("seed", seed, least=0)
    lower, upper = _bounds(matching.parameters, optional(mapping, "bounds", bounds, "a mapping from names to pairs"))
    noise = _noise(matching) if sd is None else np.broadcast_to(array("sd", sd, above=0), (len(matching.states),))
    scale = matching.scale(noise)
    design, data = matching.design / scale[:, None], (matching.data - matching.known) / scale
    if len(data) < 2:
        raise ValueError(f"times must leave at least two equations, got {len(data)}")
    rng, counts = np.random.default_rng(seed), np.zeros(len(matching.parameters))
    for _ in range(pairs):
        order = rng.permutation(len(data))
        for half in (order[: len(data) // 2], order[len(data) // 2 :]):
            counts += _Subsets(design[half], data[half], lower, upper).best()
    share = counts / (2 * pairs)
    chosen = share >= threshold
    fitted = _Subsets(design, data, lower, upper)
    mean, spread = fitted.estimate(chosen)
    names = tuple(name for name, kept in zip(matching.parameters, chosen, strict=True) if kept)
    shares = dict(zip(matching.parameters, share.tolist(), strict=True))
    return Selection(library.subset(names), names, mean, spread, shares, noise)


class _Subsets:
    """Fits of subsets of the terms to equations of unit noise, from their sufficient statistics.

    Columns have length one, and coefficients and bounds the units that belong to that.
    """

    def __init__(self, design: Array, data: Array, lower: Array, upper: Array) -> None:
        p = design.shape[1]
        factor = np.linalg.qr(np.column_stack([design, data]), mode="r")
        upper_part = np.zeros((p + 1, p + 1))
        upper_part[: len(factor)] = factor
        size = np.linalg.norm(upper_part[:p, :p], axis=0)
        self.size = np.where(size > 0.0, size, 1.0)
        self.matrix, self.right = upper_part[:p, :p] / self.size, upper_part[:p, p]
        self.penalty, self.lower, self.upper = math.log(len(data)), lower * self.size, upper * self.size
        self.free = np.isinf(lower) & np.isinf(upper)

    def best(self) -> npt.NDArray[np.bool_]:
        """A subset whose criterion no move of one term improves; from the full library."""
        chosen = np.ones(len(self.right), dtype=bool)
        value = self._criterion(chosen)
        for _ in range(4 * len(chosen)):  # each step lowers the criterion: bounds and rounding alone could go on
            changes = self._changes(chosen, value)
            k = int(np.argmin(changes))
            if not changes[k] < 0.0:
                break
            chosen[k] = not chosen[k]
            value = self._criterion(chosen)
        return chosen

    def _criterion(self, chosen: npt.NDArray[np.bool_]) -> float:
        """Bayesian information criterion of a subset, up to a constant."""
        residual = self.right - self.matrix[:, chosen] @ self._fit(chosen)
        return float(residual @ residual + self.penalty * chosen.sum())

    def _changes(self, chosen: npt.NDArray[np.bool_], value: float) -> Array:
        """By how much the criterion changes where one term is added or dropped."""
        if not self.free.all():
            flipped = chosen ^ np.eye(len(chosen), dtype=bool)
            return np.array([self._criterion(other) for other in flipped]) - value
        columns, rest = self.matrix[:, chosen], self.matrix[:, ~chosen]
        changes = np.empty(len(chosen))
        inverse = np.linalg.pinv(columns)
        fitted = inverse @ self.right
        size = np.linalg.norm(inverse, axis=1)
        changes[chosen] = np.where(size > 0.0, (fitted / np.where(size > 0.0, size, 1.0)) ** 2, 0.0) - self.penalty
        beyond = rest - columns @ (inverse @ rest)
        square = np.sum(beyond**2, axis=0)
        new = square > _DEPENDENT * np.sum(rest**2, axis=0)
        gain = ((self.right - columns @ fitted) @ beyond) ** 2 / np.where(new, square, 1.0)
        changes[~chosen] = np.where(new, self.penalty - gain, self.penalty)
        return changes

    def estimate(self, chosen: npt.NDArray[np.bool_]) -> tuple[Array, Array]:
        """Coefficients of a subset, and their standard deviations; 0 at a bound."""
        mean = self._fit(chosen)
        inside = (mean > self.lower[chosen]) & (mean < self.upper[chosen])
        spread = np.zeros(len(mean))
        columns = self.matrix[:, chosen][:, inside]
        spread[inside] = np.linalg.norm(np.linalg.pinv(columns), axis=1)
        return mean / self.size[chosen], spread / self.size[chosen]

    def _fit(self, chosen: npt.NDArray[np.bool_]) -> Array:
        """Coefficients of a subset, in units of the sizes of their columns."""
        columns, lower, upper = self.matrix[:, chosen], self.lower[chosen], self.upper[chosen]
        found = np.linalg.lstsq(columns, self.right, rcond=_DEPENDENT)[0]
        if ((found >= lower) & (found <= upper)).all():
            return np.asarray(found)
        return np.asarray(lsq_linear(columns, self.right, (lower, upper), method="bvls").x)


def _noise(matching: GradientMatching) -> Array:
    """Standard deviations of the states' noise that the whole library leaves."""
    n = len(matching.states)
    ratios = np.ones(n) if matching.ratios is None else np.asarray(matching.ratios, dtype=float)
    scale = matching.scale(ratios)
    design, data = matching.design / scale[:, None], (matching.data - matching.known) / scale
    residual = data - design @ np.linalg.lstsq(design, data, rcond=_DEPENDENT)[0]
    freedom = len(data) - np.linalg.matrix_rank(design)
    if freedom < 1:
        raise ValueError(f"sd must be given where there are no more equations than terms, got {design.shape}")
    return ratios * math.sqrt(float(residual @ residual) / freedom)


def _bounds(parameters: Sequence[str], bounds: Mapping[str, tuple[float, float]] | None) -> tuple[Array, Array]:
    lower, upper = np.full(len(parameters), -np.inf), np.full(len(parameters), np.inf)
    for name, pair in (bounds or {}).items():
        if name not in parameters:
            raise ValueError(f"bounds must be of parameters out of {tuple(parameters)}, got {name!r}")
        ends = array(f"bounds[{name!r}]", pair, (2,), finite=False)
        if not ends[0] < ends[1]:
            raise ValueError(f"bounds[{name!r}] must be a lower and an upper end, got {ends.tolist()}")
        k = list(parameters).index(name)
        lower[k], upper[k] = ends
    return lower, upper


def _product(value: float, term: str) -> str:
    return f"{value:.4g}" if term == "1" else f"{value:.4g} {term}"
