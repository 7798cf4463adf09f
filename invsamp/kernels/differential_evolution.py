"""Differential evolution: jumps along differences of past states, without gradients."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from invsamp.evaluate.requests import EvaluationRequests, Memory, Rows
from invsamp.kernels.contract import ActiveRung, Info, Moved, Point
from invsamp.kernels.defaults import KernelDefaults
from invsamp.kernels.metropolis import proposed
from invsamp.protocols import Array
from invsamp.stored import stored_dataclass

#: Shares of snooker moves, and of the others that jump by a whole difference, from mode to mode.
SNOOKER, WHOLE = 0.1, 0.1
#: Half of the range of the factor of a snooker move, and its middle.
SNOOKER_FACTOR = 0.5, 1.7
#: By how much a jump may be longer or shorter, relative to itself.
JITTER = 0.2
#: Half of the jumps in warm-up are shorter than they would be, by up to this factor.
SHORTEST = 1e-3
#: Steps of warm-up between two looks at the chains; states that are kept, and more of them for each parameter.
EVERY, KEPT, KEPT_EACH = 10, 100, 10


@stored_dataclass
class DifferentialEvolution(KernelDefaults):
    r"""Differential evolution with past states and snooker moves: needs neither gradients nor the posterior's scale.

    From an archive of states, two of which are a and b,

    .. math:: x' = x + \gamma\, (a - b), \qquad \gamma = 2.38\, s / \sqrt{2 d},

    with s the step size. One jump in ten has :math:`\gamma = 1`: differences of states in two modes lead from one to
    the other. One move in ten is a snooker move, along the line through a third state c,

    .. math:: x' = x + \gamma_s P (a - b), \qquad \gamma_s \sim U(1.2, 2.2),

    with P the projection on that line, and pays :math:`(|x' - c| / |x - c|)^{d - 1}`.

    The archive begins with draws of a Gaussian as wide as the prior. In warm-up it grows by states of the chains and
    drops the oldest, and half of the jumps are shorter, as it may still be far too wide. After warm-up the archive is
    fixed: moves are exact Metropolis steps, and chains are independent of each other, however few there are.

    Notes
    -----
    In the source the archive grows without a limit, which makes the chains an adaptive sampler, and no jumps are
    shortened. A small absolute noise is added to a jump there. Here jumps are longer or shorter by up to a fifth, of
    any scale.

    References
    ----------
    ter Braak and Vrugt (2008), "Differential Evolution Markov Chain with snooker updater and fewer chains", Statistics
    and Computing 18, 435-446, section 2. Jumps by whole differences: ter Braak (2006), Statistics and Computing 16.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.kernels.DifferentialEvolution())
    differential evolution
    """

    name: ClassVar[str] = "differential evolution"
    gradient = False
    adjusted = True
    target_acceptance = 0.25

    def __str__(self) -> str:
        return "differential evolution"

    def init(self, rng: np.random.Generator, shape: tuple[int, int]) -> Memory:
        """No states so far, of so many steps."""
        return {"archive": np.empty((0, shape[1])), "steps": np.zeros(1, dtype=int)}

    def step(self, rung: ActiveRung, here: Point, memory: Memory) -> EvaluationRequests[Moved]:
        """Move every chain once."""
        chains, d = here.position.shape
        archive, steps = memory["archive"], memory["steps"]
        if not len(archive):
            archive = _begun(rung, chains, d)
        if rung.warming and steps[0] % EVERY == EVERY - 1:
            kept = max(len(archive), (steps[0] // EVERY + 1) * chains // 2)
            archive = np.concatenate([archive, here.position])[-kept:]
        jump, log_factor = _jumps(rung, here.position, archive)
        rows = np.arange(chains)
        there, log_ratio, moved = yield from proposed(rung, here, here.position + jump, log_factor, rows)
        return there, {"archive": archive, "steps": steps + 1}, Info(log_ratio, int(moved.sum()))


def _begun(rung: ActiveRung, chains: int, d: int) -> Array:
    """States of the Gaussian that stands for the prior."""
    reference = rung.reference
    count = -(-max(KEPT + KEPT_EACH * d, 2 * chains) // chains)
    return np.concatenate([reference.mean + reference.metric.color(rung.normal()) for _ in range(count)])


def _jumps(rung: ActiveRung, x: Array, archive: Array) -> tuple[Array, Array]:
    """Jumps of all chains (chains, d), and the logs of what makes up for those that are not symmetric (chains,)."""
    d, n = x.shape[1], len(archive)
    a = _chosen(rung, n)
    b = (a + 1 + _chosen(rung, n - 1)) % n
    difference = archive[a] - archive[b]
    kind, size = np.exp(rung.log_uniform()), 2.0 * np.exp(rung.log_uniform()) - 1.0
    factor = 2.38 * (rung.step_size / rung.step_scale) / np.sqrt(2.0 * d) * (1.0 + JITTER * size[:, None])
    factor = np.where((kind < SNOOKER + WHOLE)[:, None], 1.0, factor)
    if rung.warming:  # the archive may still be far too wide: some jumps are short enough in any case
        factor = factor * SHORTEST ** np.maximum(0.0, 2.0 * np.exp(rung.log_uniform()) - 1.0)[:, None]
    jump, log_factor = factor * difference, np.zeros(len(x))
    rows = np.flatnonzero((kind < SNOOKER) & (d > 1))  # in one dimension it is a jump along a difference
    line = x[rows] - archive[_chosen(rung, n)[rows]]
    with np.errstate(invalid="ignore", divide="ignore"):  # a state of the archive itself has no line through it
        length = np.linalg.norm(line, axis=1)
        along = np.einsum("ki,ki->k", difference[rows], line) / length**2
        half, middle = SNOOKER_FACTOR
        jump[rows] = ((middle + half * size[rows]) * along)[:, None] * line
        log_factor[rows] = (d - 1) * np.log(np.linalg.norm(line + jump[rows], axis=1) / length)
    jump[~np.isfinite(log_factor)] = 0.0  # it is refused
    return jump, log_factor


def _chosen(rung: ActiveRung, n: int) -> Rows:
    """A number below n for each chain, all alike."""
    return np.minimum(n * np.exp(rung.log_uniform()), n - 1).astype(int)
