"""Problems of languages that have coordinates of their own: each parameter natural where both have one size."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.arguments import generator, integer, numbers, one_of
from invsamp.domains import Unbounded
from invsamp.domains.contract import Domain
from invsamp.posing.checks.gradient_check import GradientCheck, check_gradient
from invsamp.posing.expressions.variable_names import check_names
from invsamp.protocols import Array, Potential

#: How often a start of finite energy is looked for.
TRIES = 100


class Block(NamedTuple):
    """A parameter: its name and shape, and how many unconstrained numbers it is sampled as.

    Where these are fewer or more than it has entries, as of shares of a whole, draws keep the unconstrained numbers, by
    the name ``sampled``, and the parameter itself is a function of them.
    """

    name: str
    shape: tuple[int, ...]
    size: int
    sampled: str

    @property
    def natural(self) -> bool:
        """Whether draws keep the parameter itself."""
        return math.prod(self.shape) == self.size


class UnconstrainedProblem:
    """A posterior in the unconstrained coordinates of another language.

    Parameters
    ----------
    blocks : sequence of Block
        In the order of the coordinates.
    potential : Potential
        Of unconstrained positions, with their Jacobian.
    constrain : callable
        Position (d,) -> values of all blocks, arrays of their shapes.
    unconstrain : callable
        Values of the natural blocks (arrays by name) and unconstrained numbers of the others -> position (d,).
    start : callable
        (rng, n) -> starting positions (n, d).
    kind : str
        What prints.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        potential: Potential,
        constrain: Callable[[Array], Sequence[npt.ArrayLike]],
        unconstrain: Callable[[Mapping[str, Array]], Array],
        start: Callable[[np.random.Generator, int], Array],
        kind: str,
    ) -> None:
        self.blocks, self._potential, self._kind = tuple(blocks), potential, kind
        self._constrain, self._unconstrain, self._start = constrain, unconstrain, start
        self.dimension = sum(block.size for block in self.blocks)
        self.shapes: dict[str, tuple[int, ...]] = {
            block.name if block.natural else block.sampled: block.shape if block.natural else (block.size,)
            for block in self.blocks
        }
        check_names(self.shapes)
        ends = np.cumsum([0, *(block.size for block in self.blocks)]).tolist()
        self._columns = {block.name: slice(*ends[k : k + 2]) for k, block in enumerate(self.blocks)}

    @property
    def fidelities(self) -> tuple[str, ...]:
        """One."""
        return ("model",)

    @property
    def sampling_domain(self) -> Domain:
        """Positions have no bounds."""
        return Unbounded()

    @property
    def support(self) -> Domain:
        """No domain: bounds of theta are left to the model."""
        return Unbounded()

    @property
    def deterministics(self) -> dict[str, Callable[[Array], Array]]:
        """Functions of theta (batch, dimension) by name, for ``record=`` of `invsamp.sample`.

        Parameters of which draws keep unconstrained numbers.
        """
        return {block.name: _Deterministic(self, k) for k, block in enumerate(self.blocks) if not block.natural}

    def potential(self, fidelity: str | None = None) -> Potential:
        """The energy."""
        if fidelity is not None:
            one_of("fidelity", fidelity, self.fidelities)
        return self._potential

    def to_theta(self, position: npt.ArrayLike) -> Array:
        """Natural parameters (..., dimension) at positions (..., dimension)."""
        points = numbers("position", position)
        rows = np.ascontiguousarray(points.reshape(-1, self.dimension))
        theta = rows.copy()
        for k, row in enumerate(rows):
            for block, value in zip(self.blocks, self._constrain(row), strict=True):
                if block.natural:
                    theta[k, self._columns[block.name]] = np.ravel(value)
        return theta.reshape(points.shape)

    def to_position(self, theta: npt.ArrayLike) -> Array:
        """Positions (..., dimension) of natural parameters; NaN where there are none."""
        points = numbers("theta", theta)
        rows = points.reshape(-1, self.dimension)
        position = np.full(rows.shape, np.nan)
        for k, row in enumerate(rows):
            try:
                position[k] = self._unconstrain(self._by_name(row))
            except (ArithmeticError, RuntimeError, ValueError):
                continue
        return position.reshape(points.shape)

    def sample_start(self, rng: np.random.Generator, n: int) -> Array:
        """Starting positions (n, dimension), of finite energy where such are found."""
        generator("rng", rng), integer("n", n, least=0)
        found = self._start(rng, n)
        for _ in range(TRIES):
            lost = ~np.isfinite(self._potential.energy(found))
            if not lost.any():
                break
            found[lost] = self._start(rng, int(lost.sum()))
        return found

    def check_gradient(self, seed: int = 0) -> GradientCheck:
        """Check of the energy's gradient at a start, in a random direction; see `invsamp.Posterior.check_gradient`."""
        rng = np.random.default_rng(integer("seed", seed, least=0))
        position = self.sample_start(rng, 1)[0]
        return check_gradient(self._potential, position, rng.standard_normal(self.dimension))

    def __repr__(self) -> str:
        names = ", ".join(f"{name} {shape}" if shape else name for name, shape in self.shapes.items())
        return f"{self._kind}({self.dimension} parameters: {names})"

    def _by_name(self, row: Array) -> dict[str, Array]:
        return {
            block.name: row[self._columns[block.name]].reshape(block.shape if block.natural else (block.size,))
            for block in self.blocks
        }


class _Deterministic:
    """Values (batch, ...) of a parameter of which theta has the unconstrained numbers."""

    def __init__(self, problem: UnconstrainedProblem, place: int) -> None:
        self._problem, self._place = problem, place

    def __call__(self, theta: Array) -> Array:
        problem = self._problem
        positions = problem.to_position(theta)
        return np.stack([np.asarray(problem._constrain(row)[self._place]) for row in positions])  # noqa: SLF001
