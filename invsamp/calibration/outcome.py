"""The result of a calibration: ranks, whether they are uniform, and the description of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from invsamp import arguments, html
from invsamp.calibration.uniformity import bands, p_values
from invsamp.protocols import Array
from invsamp.warning_codes import code_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Quantities that a printed calibration shows, the worst first.
SHOWN = 20
#: Failures, or kinds of warnings, that it names.
NAMED = 3


@dataclass(frozen=True)
class Calibration:
    r"""Result of `calibrate`; prints as a table with a verdict.

    Attributes
    ----------
    labels : tuple of str
        What was ranked: every column of theta, then ``"energy"`` and ``"misfit"``.
    numbers : ndarray of int, shape (n,)
        Of the replicates that ended.
    theta : ndarray, shape (n, d)
        Their true parameters.
    ranks : ndarray of int, shape (n, q)
        Of the true values among ``draws`` of the posterior's; uniform on 0..draws where the sampler is right.
    draws : int
    ess : ndarray, shape (n,)
        Least effective sample size of each run; where it is below ``draws``, ranks depart from uniform ones for want of
        draws alone.
    failed : dict of int to str
        Reasons why other replicates failed.
    warned : dict of int to list of str
        What runs warned of.
    false_alarm : float
        Probability that a right sampler is said to be wrong, by all quantities together.
    seed : int
    sampler : str
    approximate : bool
        Whether a rung has no acceptance step, or moves are not reflected at bounds: then draws are not of the posterior
        as the sampler states, and the verdict says whether so many replicates show it.
    """

    labels: tuple[str, ...]
    numbers: npt.NDArray[np.int64]
    theta: Array
    ranks: npt.NDArray[np.int64]
    draws: int
    ess: Array
    failed: Mapping[int, str] = field(repr=False)
    warned: Mapping[int, Sequence[str]] = field(repr=False)
    false_alarm: float
    seed: int
    sampler: str
    approximate: bool

    @cached_property
    def p_values(self) -> Array:
        """For each quantity (q,), the probability that uniform ranks depart as much; exact for independent draws."""
        return p_values(self.ranks, self.draws)

    @property
    def calibrated(self) -> bool:
        """Whether no quantity's p-value is below ``false_alarm`` over their number."""
        return bool((self.p_values >= self.false_alarm / len(self.labels)).all())

    @property
    def short(self) -> tuple[int, ...]:
        """Replicates whose runs have fewer effective draws than they are ranked among."""
        return tuple(self.numbers[self.ess < self.draws].tolist())

    @property
    def offset(self) -> Array:
        """By how much draws lie above the true values (q,), in sds of a uniform rank; about 0 where all is right."""
        return (0.5 - self._shares().mean(axis=0)) * np.sqrt(12.0)

    @property
    def width(self) -> Array:
        """How wide the draws are against the truth's uncertainty (q,): sd of a uniform rank over that of the ranks."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.sqrt(1.0 / 12.0) / self._shares().std(axis=0))

    def bands(self) -> tuple[Array, Array]:
        """Simultaneous bands, each (draws,), of the share of ranks at most 0, 1, ..., less that of uniform ones.

        Those of all quantities are within with probability ``1 - false_alarm`` where the sampler is right.
        """
        low, high = bands(len(self.ranks), self.draws, self.false_alarm / len(self.labels))
        uniform = np.arange(1, self.draws + 1) / (self.draws + 1)
        return low / len(self.ranks) - uniform, high / len(self.ranks) - uniform

    def plot(self, names: Sequence[str] | None = None, *, ax: Axes | None = None) -> Figure:
        """Distribution of the ranks less the uniform one, with simultaneous bands, for each quantity.

        Parameters
        ----------
        names : sequence of str, optional
            Of the labels. Default: those that depart most, eight at most.
        ax : Axes, optional
            Where to draw a single quantity.

        Raises
        ------
        ValueError
            If a name is unknown, or there are too many, or more than one with ``ax``.
        """
        from invsamp.calibration.figure import plotted  # matplotlib waits for its first use
        from invsamp.plots.figure import MOST_PANELS

        if names is None:
            chosen = np.sort(np.argsort(self.p_values, kind="stable")[:MOST_PANELS]).tolist()
        else:
            known = list(self.labels)
            chosen = [known.index(arguments.one_of("names", n, known)) for n in arguments.names("names", names)]
            if len(chosen) > MOST_PANELS:
                raise ValueError(f"names must hold at most {MOST_PANELS} names, got {len(chosen)}")
        labels, limit = [self.labels[k] for k in chosen], self.false_alarm / len(self.labels)
        ranks, p_values = self.ranks[:, chosen], self.p_values[chosen]
        return plotted(labels, ranks, self.draws, p_values, self.bands(), limit, self.false_alarm, len(self.labels), ax)

    def _shares(self) -> Array:
        """Ranks as numbers between 0 and 1, uniform where all is right (n, q)."""
        return (self.ranks + 0.5) / (self.draws + 1)

    def _repr_html_(self) -> str:
        limit = self.false_alarm / len(self.labels)
        rows = [
            [
                *(self.labels[k], f"{self.p_values[k]:.2g}", f"{self.offset[k]:+.2f}", f"{self.width[k]:.2f}"),
                "" if self.p_values[k] >= limit else self._word(k),
            ]
            for k in np.argsort(self.p_values, kind="stable")[:SHOWN]
        ]
        table = html.table(self._headline(), ["quantity", "p-value", "offset", "width", ""], rows)
        return table + html.sentences([*self._more(), self._verdict(limit), *self._notes()])

    def __str__(self) -> str:
        limit = self.false_alarm / len(self.labels)
        lines = [self._headline(), f"{'quantity':<20} {'p-value':>9} {'offset':>8} {'width':>7}"]
        for k in np.argsort(self.p_values, kind="stable")[:SHOWN]:
            word = "" if self.p_values[k] >= limit else f"  {self._word(k)}"
            lines.append(
                f"{self.labels[k]:<20} {self.p_values[k]:9.2g} {self.offset[k]:+8.2f} {self.width[k]:7.2f}{word}"
            )
        return "\n".join([*lines, *self._more(), self._verdict(limit), *self._notes()])

    def _headline(self) -> str:
        n = len(self.ranks)
        return f"Calibration of {self.sampler}: {n} replicates, ranks among {self.draws} draws, seed {self.seed}"

    def _more(self) -> list[str]:
        return [f"... and {len(self.labels) - SHOWN} more that depart less"] * (len(self.labels) > SHOWN)

    def _word(self, k: int) -> str:
        """Describe the error of the draws of one quantity."""
        error = np.sqrt(1.0 / max(len(self.ranks), 1))
        found = []
        if abs(self.offset[k]) > 3.0 * error:
            found.append("too high" if self.offset[k] > 0.0 else "too low")
        if abs(np.log(self.width[k])) > 2.0 * error:
            found.append("too wide" if self.width[k] > 1.0 else "too narrow")
        return f"draws are {' and '.join(found) or 'of another shape'}"

    def _verdict(self, limit: float) -> str:
        level = f"(probability of a false alarm {self.false_alarm:g}, over all {len(self.labels)} quantities)"
        if not self.calibrated:
            wrong = int((self.p_values < limit).sum())
            bias = "; the sampler is approximate, and this is its bias" if self.approximate else ""
            return f"NOT calibrated: {wrong} of {len(self.labels)} quantities depart {level}{bias}"
        least = "; the sampler is approximate, by too little for so many replicates to show" if self.approximate else ""
        return f"calibrated, as far as {len(self.ranks)} replicates show {level}{least}"

    def _notes(self) -> list[str]:
        notes = []
        if self.failed:
            named = "; ".join(f"{number}: {why}" for number, why in list(self.failed.items())[:NAMED])
            notes.append(f"{len(self.failed)} replicates failed, and the result is that of the others alone. {named}")
        if self.short:
            notes.append(
                f"{len(self.short)} runs have fewer than {self.draws} effective draws, the least "
                f"{self.ess.min():.0f}. This alone makes ranks depart from uniform. Use more draws, or fewer "
                "ranks"
            )
        if self.warned:
            kinds = Counter(code_of(text) or text.split(":")[0] for texts in self.warned.values() for text in texts)
            often = "; ".join(f"{text} ({count})" for text, count in kinds.most_common(NAMED))
            notes.append(f"{len(self.warned)} runs warned, as short ones may: {often}")
        return notes
