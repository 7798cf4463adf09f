"""Jumps between modes that are known, in each of which another kernel moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, instance, store
from invsamp.evaluate.requests import EvaluationRequests, Memory, Rows
from invsamp.kernels.contract import ActiveRung, Kernel, Moved, Point, decided
from invsamp.kernels.defaults import Wrapping
from invsamp.protocols import Array
from invsamp.stored import stored

#: Degrees of freedom of the densities that decide which mode a position belongs to: with Gaussian tails a position that
#: is far from all of them would belong to the widest one.
FREEDOM = 5.0


@stored
@dataclass(frozen=True, eq=False)
class ModeJumps(Wrapping):
    r"""A kernel that moves within modes, and after each of its steps one jump from mode to mode.

    With the modes' centers :math:`m_k` and covariances :math:`L_k L_k^T`, a position x belongs to mode i with
    probability :math:`r_i(x) \propto t_i(x)`, Student densities of `FREEDOM` degrees about them. A jump takes i of
    these and another mode j evenly, and proposes what stands to j as x does to i,

    .. math:: x' = m_j + L_j L_i^{-1} (x - m_i),

    accepted with probability :math:`\min(1, e^{v(x) - v(x')}\, r_j(x')\, |L_j| / (r_i(x)\, |L_i|))`. The target is
    exact for any Gaussians: where they approximate the modes badly, jumps are rejected. One more evaluation for each
    step.

    Parameters
    ----------
    kernel : Kernel
        Adjusted; moves within the modes.
    centers : ndarray, shape (k, d)
        Of at least two modes, in the coordinates that are sampled in.
    factors : ndarray, shape (k, d, d)
        Lower Cholesky factors of their covariances.

    Raises
    ------
    ValueError
        If the kernel is not adjusted, or the shapes do not fit.

    References
    ----------
    Pompe, Holmes and Latuszynski (2020), "A framework for adaptive MCMC targeting multimodal distributions", Annals of
    Statistics 48, section 2.2 (deterministic jumps); here the mode is no part of the state, but drawn anew.
    """

    kernel: Kernel
    centers: Array = field(repr=False)
    factors: Array = field(repr=False)

    def __post_init__(self) -> None:
        instance("kernel", self.kernel, Kernel, "a Kernel, such as Microcanonical()")
        if not self.kernel.adjusted:
            raise ValueError(f"kernel must be adjusted, as jumps have an acceptance step, got {self.kernel}")
        centers = array("centers", self.centers, ("k", "d"))
        if len(centers) < 2:
            raise ValueError(f"centers must be of at least two modes, got {len(centers)}")
        factors = array("factors", self.factors, (len(centers), centers.shape[1], centers.shape[1]))
        if not (np.diagonal(factors, axis1=1, axis2=2) > 0.0).all():
            raise ValueError("factors must be lower triangular with a positive diagonal, got one that is not")
        store(self, centers=centers, factors=factors)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ModeJumps):
            return NotImplemented
        alike = self.kernel == other.kernel and np.array_equal(self.centers, other.centers)
        return alike and np.array_equal(self.factors, other.factors)

    def __hash__(self) -> int:
        return hash((self.kernel, self.centers.tobytes()))

    def __str__(self) -> str:
        return f"{self.kernel}, with jumps between {len(self.centers)} modes"

    @property
    def name(self) -> str:
        """The kernel's own, and that it jumps."""
        return f"{self.kernel.name} with jumps"

    @property
    def statistics(self) -> Mapping[str, type]:
        """The kernel's own, and whether a chain has jumped."""
        return dict(self.kernel.statistics) | {"jumped": bool}

    def init(self, rng: np.random.Generator, shape: tuple[int, int]) -> Memory:
        """As of the kernel."""
        if shape[1] != self.centers.shape[1]:
            raise ValueError(f"centers must have {shape[1]} columns, one for each unknown, got {self.centers.shape[1]}")
        return self.kernel.init(rng, shape)

    def step(self, rung: ActiveRung, here: Point, memory: Memory) -> EvaluationRequests[Moved]:
        """A step of the kernel, and a jump."""
        moved, memory, info = yield from self.kernel.step(rung, here, memory)
        position, chains = moved.position, np.arange(len(moved.position))
        shares = self._shares(position)
        first = (np.cumsum(np.exp(shares), axis=0) < np.exp(rung.log_uniform())).sum(axis=0)
        first = np.minimum(first, len(shares) - 1)  # rounding
        others = len(shares) - 1
        second = (first + 1 + (others * np.exp(rung.log_uniform())).astype(int) % others) % len(shares)
        end = position.copy()
        for k in chains:
            away = np.linalg.solve(self.factors[first[k]], position[k] - self.centers[first[k]])
            end[k] = self.centers[second[k]] + self.factors[second[k]] @ away
        inside = rung.contains(end)
        end[~inside] = position[~inside]
        there = Point(end, (yield from rung.evaluate(end)))
        volumes = self._volumes[second] - self._volumes[first]
        with np.errstate(invalid="ignore"):
            log_ratio = rung.position_energy(moved.estimate) - rung.position_energy(there.estimate) + volumes
            log_ratio += self._shares(end)[second, chains] - shares[first, chains]
        log_ratio[~inside | np.isnan(log_ratio)] = -np.inf
        jumped: npt.NDArray[np.bool_] = rung.log_uniform() < log_ratio
        statistics = dict(info.statistics) | {"jumped": jumped}
        return decided(jumped, there, moved), memory, info._replace(statistics=statistics)

    def arrived(self, rung: ActiveRung, memory: Memory, rows: Rows, change: Array) -> Memory:
        """As of the kernel."""
        return self.kernel.arrived(rung, memory, rows, change)

    @property
    def _volumes(self) -> Array:
        """Logs of the factors' determinants (k,)."""
        return np.asarray(np.log(np.diagonal(self.factors, axis1=1, axis2=2)).sum(axis=1))

    def _shares(self, position: Array) -> Array:
        """Logs of the probabilities (k, n) that positions (n, d) belong to the modes."""
        d = position.shape[1]
        white = np.stack(
            [np.linalg.solve(f, (position - m).T) for m, f in zip(self.centers, self.factors, strict=True)]
        )
        logs = -0.5 * (FREEDOM + d) * np.log1p(np.square(white).sum(axis=1) / FREEDOM) - self._volumes[:, None]
        logs -= logs.max(axis=0)
        return np.asarray(logs - np.log(np.exp(logs).sum(axis=0)))
