r"""A check of an emulated posterior by simulations at its draws.

With the emulated density q and the true one p the weights :math:`w = p / q` of draws of q make them draws of p (Owen
2013, "Monte Carlo theory, methods and examples", section 9.2).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from invsamp.diagnostics import weights
from invsamp.diagnostics.tails import pareto_shape
from invsamp.protocols import Array
from invsamp.results.run import Run

#: Efficiency of the weights below which the emulator is found wrong, and the shape of their tail above which.
LEAST_EFFICIENCY, MOST_SHAPE = 0.7, 0.7
#: Efficiency above which the tail does not matter: its shape says nothing of the size of the weights' differences.
NEARLY_EXACT = 0.9
#: Changes of means, in sds and in standard errors, above which the emulator is found wrong.
MOST_SHIFT, ERRORS = 0.1, 3.5
#: Parameters that a printed certificate shows.
SHOWN = 20


@dataclass(frozen=True)
class Certificate:
    r"""The result of simulations at draws of an emulated posterior.

    Attributes
    ----------
    simulations, failed : int
        Made, and failed.
    efficiency : float
        Effective draws for each draw, :math:`(\sum w)^2 / (n \sum w^2)`: 1 where the emulator is exact.
    pareto_k : float
        Shape of the tail of the weights (Vehtari and others 2024, Journal of Machine Learning Research 25, 72): below
        0.7 weighted means can be trusted. NaN where weights are too few, or too equal, to have a tail.
    log_weight_sd : float
        Sd of the emulator's error in energy.
    means, sds : dict of str to float
        Of the draws that were simulated, each of the same weight.
    shifts : dict of str to float
        By how much weighted means differ from these means, in sds.
    shift_errors : dict of str to float
        Standard errors of these.
    once : float
        Share of the modes found to which a single descent had come.
    run : Run
        The draws with their weights: of the posterior of the simulator itself.
    """

    simulations: int
    failed: int
    efficiency: float
    pareto_k: float
    log_weight_sd: float
    means: dict[str, float]
    sds: dict[str, float]
    shifts: dict[str, float]
    shift_errors: dict[str, float]
    once: float
    run: Run = field(repr=False)

    @property
    def problems(self) -> list[str]:
        """Faults of the emulator, in words."""
        found = []
        if self.failed:
            found.append(
                f"{self.failed} of {self.simulations} simulations failed at draws of the emulated posterior: the "
                "region where the simulator fails cuts its mass. Go on with more simulations"
            )
        if self.efficiency < LEAST_EFFICIENCY:
            found.append(
                f"the weights have an efficiency of {self.efficiency:.2f}, not at least {LEAST_EFFICIENCY}: go on with "
                "more simulations, or use the weighted draws, certificate.run"
            )
        if self.pareto_k > MOST_SHAPE and self.efficiency < NEARLY_EXACT:
            found.append(
                f"the weights have a heavy tail, Pareto k = {self.pareto_k:.2f}, not at most {MOST_SHAPE}: the "
                "emulator misses a part of the posterior. Go on with more simulations"
            )
        for name, shift in self.shifts.items():
            error = self.shift_errors[name]
            if abs(shift) > max(MOST_SHIFT, ERRORS * error):
                found.append(f"the mean of {name} is off by {shift:+.2f} sds ({error:.2f} standard error)")
        return found

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong, as far as the check can see."""
        return not self.problems

    def __str__(self) -> str:
        shown = list(self.shifts)[:SHOWN]
        width = max(len(name) for name in ("mean", *shown))
        rows = [f"{'mean':{width}}  {'emulator':>10}  {'simulator':>10}  difference in sds (standard error)"]
        for name in shown:
            emulated, shift = self.means[name], self.shifts[name]
            true = emulated + shift * self.sds[name]
            rows.append(
                f"{name:{width}}  {emulated:#10.4g}  {true:#10.4g}  {shift:+.2f} ({self.shift_errors[name]:.2f})"
            )
        if len(self.shifts) > SHOWN:
            rows.append(f"... and {len(self.shifts) - SHOWN} more: see `shifts`")
        return "\n".join(
            [
                f"{self.simulations} simulations at draws of the emulated posterior, {self.failed} failed",
                *rows,
                f"weights of the draws: efficiency {self.efficiency:.2f} (1 where the emulator is exact, wanted "
                f"{LEAST_EFFICIENCY}), {self._tail_in_words()}",
                f"error of the emulator in energy: sd {self.log_weight_sd:.2g}",
                *(f"problem: {text}" for text in self.problems),
                "no problems found" if self.passed else "The draws are not those of the simulator.",
                "The check sees only regions that draws visited: no mode and no tail beyond. Of the modes found, "
                f"{self.once:.0%} were found by one optimization alone. If many were, further modes are likely.",
            ]
        )

    def _tail_in_words(self) -> str:
        """Pareto k of the largest weights, in words."""
        if np.isnan(self.pareto_k):
            return "Pareto k is not needed, as all weights are nearly equal or few"
        large = f"a few draws carry the weighted means where it is above {MOST_SHAPE}"
        return f"Pareto k {self.pareto_k:.2f} of the largest weights ({large})"


def certificate(run: Run, theta: Array, log_weight: Array, once: float) -> Certificate:
    """From draws (n, d), thinned so that they are independent, and the logs of their weights (n,)."""
    good = np.isfinite(log_weight)
    weight = weights.normalized(np.where(good, log_weight, -np.inf)) if good.any() else np.full(len(theta), np.nan)
    spread, mean = theta.std(axis=0), theta.mean(axis=0)
    apart = (weight - 1.0)[:, None] * (theta - mean) / spread
    labels = run.labels
    shifts, errors = apart.mean(axis=0), apart.std(axis=0, ddof=1) / np.sqrt(len(theta))
    weighted = Run.from_arrays(
        None,
        run.shapes,
        theta[None, None],
        {},
        {"sampler": "importance weights of an emulator's draws", "draws": len(theta), "chains": 1},
        log_weight=log_weight[None],
    )
    return Certificate(
        len(theta),
        int((~good).sum()),
        weights.effective(weight) / len(weight) if good.any() else 0.0,
        _tail(weight),
        float(log_weight[good].std()) if good.any() else np.inf,
        dict(zip(labels, mean.tolist(), strict=True)),
        dict(zip(labels, spread.tolist(), strict=True)),
        dict(zip(labels, shifts.tolist(), strict=True)),
        dict(zip(labels, errors.tolist(), strict=True)),
        once,
        weighted,
    )


def _tail(weight: Array) -> float:
    """Pareto k of the largest weights: as many as Vehtari and others (2024) take."""
    count = int(min(0.2 * len(weight), 3.0 * np.sqrt(len(weight))))
    if count < 5 or not np.isfinite(weight).all() or np.ptp(weight) < 1e-3:
        return np.nan
    ordered = np.sort(weight)
    return float(pareto_shape((ordered[-count:] - ordered[-count - 1])[None])[0])
