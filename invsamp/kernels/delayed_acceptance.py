"""Delayed acceptance: another kernel moves on a coarse fidelity, and the rung's own decides on what that accepts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from invsamp.arguments import instance, integer, store, text
from invsamp.evaluate.requests import Estimate, EvaluationRequests, Memory, Rows
from invsamp.kernels.contract import ActiveRung, Info, Kernel, Moved, Point, decided
from invsamp.kernels.crank_nicolson import CrankNicolson
from invsamp.kernels.defaults import Wrapping
from invsamp.kernels.langevin import Langevin
from invsamp.kernels.paths import Paths
from invsamp.protocols import Array
from invsamp.stored import stored_dataclass

#: What is kept of the coarse model where the chains are, beside what the kernel keeps.
_OWN = "coarse_"
#: Energy where both models fail.
HIGHEST = 1e10


@stored_dataclass
class DelayedAcceptance(Wrapping):
    r"""A kernel whose moves a coarse fidelity screens, so that the fine one is asked about those alone that pass.

    The kernel makes ``steps`` steps on the target of the coarse energies :math:`v_c`. They are reversible, so that the
    last state is a proposal for the target of the fine energies v, accepted with probability

    .. math:: \min\bigl(1, e^{v(x) - v(x') + v_c(x') - v_c(x)}\bigr).

    That is exact however bad the coarse model is. Where it fails the fine energy takes its place, at a fine solve with
    a gradient, so that chains can enter and leave. A chain that has not moved asks for no fine solve. Of a path whose
    length changes from step to step, all steps of a proposal are as long: in another order it would not be reversible.

    In warm-up fine solves come with gradients, which teach the preconditioner; afterwards those that decide are
    energies alone.

    Parameters
    ----------
    kernel : Langevin(adjusted=True), CrankNicolson, Hamiltonian or Microcanonical
        What moves. Momentum that persists between steps would not be reversible.
    coarse : str or int
        The coarse fidelity, as of a `invsamp.ladder.Rung`: by default the next one.
    steps : int
        Of it for each fine solve (a subchain of that length).

    Raises
    ------
    ValueError
        If the kernel is another one, or an argument is wrong; in a run, if the rung is not alone, or its fidelity is
        the coarse one.

    References
    ----------
    Christen and Fox (2005), "Markov chain Monte Carlo using an approximation", JCGS 14(4), eq. (2) to (4); with several
    steps Lykkegaard, Dodwell, Fox, Mingas and Scheichl (2023), "Multilevel delayed acceptance MCMC", SIAM/ASA JUQ
    11(1), Algorithm 2.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.kernels.DelayedAcceptance(iv.kernels.Langevin(adjusted=True), coarse="coarse", steps=5)
    DelayedAcceptance(kernel=Langevin(adjusted=True), coarse='coarse', steps=5)
    """

    kernel: Kernel = field(default_factory=lambda: Langevin(adjusted=True))
    coarse: str | int = 1
    steps: int = 1

    def __post_init__(self) -> None:
        known = "an adjusted kernel whose steps are reversible: Langevin(adjusted=True), CrankNicolson, Hamiltonian or "
        instance("kernel", self.kernel, Langevin | CrankNicolson | Paths, f"{known}Microcanonical")
        if not self.kernel.adjusted or self.kernel.friction < 1.0:
            raise ValueError(f"kernel must be {known}Microcanonical, got {self.kernel!r}")
        named = isinstance(self.coarse, str)
        coarse = text("coarse", self.coarse) if named else integer("coarse", self.coarse, least=1)
        store(self, coarse=coarse, steps=integer("steps", self.steps, least=1))

    def __str__(self) -> str:
        often = "" if self.steps == 1 else f", {self.steps} steps at a time"
        return f"delayed acceptance of {self.kernel} on a coarse model{often}"

    @property
    def name(self) -> str:
        """The kernel's own, and that it is delayed."""
        return f"delayed {self.kernel.name}"

    @property
    def statistics(self) -> Mapping[str, type]:
        """The kernel's own, and the chance with which the fine model accepts: 1 where there was nothing to decide."""
        return dict(self.kernel.statistics) | {"second_stage": float}

    def init(self, rng: np.random.Generator, shape: tuple[int, int]) -> Memory:
        """That of the kernel, and of the coarse model at no position yet."""
        return {**self.kernel.init(rng, shape), f"{_OWN}position": np.full(shape, np.nan)}

    def step(self, rung: ActiveRung, here: Point, memory: Memory) -> EvaluationRequests[Moved]:
        """Move every chain on the coarse model, and decide."""
        own = {name: values for name, values in memory.items() if not name.startswith(_OWN)}
        coarse = cast(ActiveRung, _CoarseRung(rung, self.coarse))
        start = moved = yield from _known(coarse, here, memory)
        for _ in range(self.steps):
            moved, kept, info = yield from self.kernel.step(coarse, moved, own)  # each by the same path's length
        rows = np.flatnonzero((moved.position != here.position).any(axis=1))
        if not len(rows):
            statistics = dict(info.statistics) | {"second_stage": np.ones(len(here.position))}
            return here, kept | _memory(start), info._replace(accepted=0, clipped=0, statistics=statistics)
        there = Point(moved.position, here.estimate.replaced(rows, (yield from _decisive(rung, here, moved, rows))))
        log_ratio = np.zeros(len(here.position))
        with np.errstate(invalid="ignore"):
            change = rung.energy(here.estimate) - rung.energy(there.estimate)
            change = _corrected(change, coarse.energy(start.estimate) - coarse.energy(moved.estimate))
        log_ratio[rows] = np.where(np.isnan(change), -np.inf, change)[rows]
        accept: npt.NDArray[np.bool_] = rung.log_uniform() < log_ratio
        statistics = dict(info.statistics) | {"second_stage": np.exp(np.minimum(log_ratio, 0.0))}
        first = np.zeros(len(log_ratio)) if info.log_ratio is None else info.log_ratio
        first = np.where(np.isposinf(rung.energy(there.estimate)), -np.inf, first)
        count = int(np.count_nonzero(accept[rows]))
        ended = Info(first, count, info.clipped, statistics, info.acceptance, info.cliffs)
        return decided(accept, there, here), kept | _memory(decided(accept, moved, start)), ended

    def arrived(self, rung: ActiveRung, memory: Memory, rows: Rows, change: Array) -> Memory:
        """The coarse model is asked anew where a chain is elsewhere."""
        return memory


class _CoarseRung:
    """A rung as a kernel sees it, whose energies are those of a coarser fidelity; all else is the rung's.

    Where the coarse model fails they are the rung's own. An infinite energy would leave no way there and back, and cut
    off what the posterior has there.
    """

    def __init__(self, rung: ActiveRung, fidelity: str | int) -> None:
        self._rung, self._fidelity = rung, fidelity

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rung, name)

    def evaluate(self, position: Array, rows: Rows | None = None) -> EvaluationRequests[Estimate]:
        found = yield from self._rung.solve(position, self._fidelity, gradient=True)
        if not found.failed:
            return found
        failed = np.flatnonzero(np.isposinf(found.energy))
        return found.replaced(failed, (yield from self._rung.solve(position[failed], 0, gradient=True)))

    def energy(self, estimate: Estimate) -> Array:
        # any density will do as long as it is one: chains may stand, and move, where both models fail
        return np.minimum(self._rung.energy(estimate), HIGHEST)

    def energy_noise(self, point: Point) -> Array | None:
        return None

    gradient_noise = energy_noise


def _known(coarse: ActiveRung, here: Point, memory: Memory) -> EvaluationRequests[Point]:
    """Coarse estimates at the chains' positions: those remembered, and new ones where chains have moved."""
    names = [name for name in Estimate._fields if f"{_OWN}{name}" in memory]
    new = np.flatnonzero((memory[f"{_OWN}position"] != here.position).any(axis=1))
    if "energy" not in names or len(new) == len(here.position):
        return Point(here.position, (yield from coarse.evaluate(here.position)))
    parts = {name: memory[f"{_OWN}{name}"] for name in names}
    kept = Estimate(**({"gradient": None} | parts))  # type: ignore[arg-type]
    if len(new):
        kept = kept.replaced(new, (yield from coarse.evaluate(here.position[new])))
    return Point(here.position, kept)


def _corrected(log_ratio: Array, coarse: Array) -> Array:
    """The ratio of the fine target less that of the coarse one, by which proposals come already."""
    return log_ratio - coarse


def _memory(point: Point) -> Memory:
    parts = zip(Estimate._fields, point.estimate.arrays, strict=False)
    found = {f"{_OWN}{name}": part for name, part in parts if part is not None}
    return {f"{_OWN}position": point.position, **found}


def _decisive(rung: ActiveRung, here: Point, moved: Point, rows: Rows) -> EvaluationRequests[Estimate]:
    """The fine model's energies where some chains would go; its gradients in warm-up alone, else NaN."""
    position = moved.position[rows]
    if rung.warming:
        return (yield from rung.evaluate(position, rows))
    found = yield from rung.solve(position, 0, gradient=False)
    slope, unknown = here.estimate.prior_gradient, np.full(position.shape, np.nan)
    return found._replace(gradient=unknown, prior_gradient=None if slope is None else unknown)
