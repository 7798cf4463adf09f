"""A Stan model, compiled by BridgeStan, as a density to sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from invsamp.arguments import wrong
from invsamp.interop.row_potential import RowPotential
from invsamp.interop.unconstrained_problem import Block, UnconstrainedProblem
from invsamp.protocols import Array, Plain

#: What `from_bridgestan` asks of a model.
METHODS = (
    *("param_names", "param_unc_names", "param_unc_num", "log_density", "log_density_gradient"),
    *("param_constrain", "param_unconstrain"),
)
#: Half-width of the uniform starts in unconstrained coordinates, as Stan has them.
START = 2.0


class StanProblem(UnconstrainedProblem):
    """The density of a Stan model; made by `from_bridgestan`.

    Attributes
    ----------
    model : bridgestan.StanModel
    shapes : dict of names to shapes
        Parameters, natural where they have as many entries as unconstrained numbers. Others, such as a simplex, are
        kept as unconstrained numbers, ``name_unconstrained``, and are in ``deterministics``.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self._names, unconstrained = model.param_names(), model.param_unc_names()
        shapes = _shapes(self._names)
        counts = {name: sum(_base(one) == name for one in unconstrained) for name in shapes}
        blocks = [Block(name, shape, counts[name], f"{name}_unconstrained") for name, shape in shapes.items()]
        self._places = {name: [k for k, one in enumerate(self._names) if _base(one) == name] for name in shapes}
        potential = RowPotential(int(model.param_unc_num()), self._value, self._value_and_slope)
        super().__init__(blocks, potential, self._natural, self._unnatural, self._starts, "StanProblem")

    def described(self) -> Plain:
        """Facts by which a resumed run recognizes the model."""
        return {"model": getattr(self.model, "name", lambda: "a Stan model")()}

    def _value(self, x: Array) -> float:
        return float(self.model.log_density(x, propto=False, jacobian=True))

    def _value_and_slope(self, x: Array) -> tuple[float, Array]:
        value, slope = self.model.log_density_gradient(x, propto=False, jacobian=True)
        return float(value), slope

    def _natural(self, x: Array) -> Sequence[Array]:
        flat = np.asarray(self.model.param_constrain(x), dtype=float)
        found = []
        for block in self.blocks:
            values = np.empty(block.shape)
            for k in self._places[block.name]:
                values[_index(self._names[k])] = flat[k]
            found.append(values)
        return found

    def _unnatural(self, values: Mapping[str, Array]) -> Array:
        """From all constrained values; those that are not natural come from their unconstrained numbers."""
        x = np.zeros(self.dimension)
        kept = [block for block in self.blocks if not block.natural]
        for _ in range(1 + bool(kept)):  # bounds may depend on what is not natural
            for block in kept:
                x[self._columns[block.name]] = values[block.name]
            flat = np.asarray(self.model.param_constrain(x), dtype=float)
            for block in self.blocks:
                for k in self._places[block.name] if block.natural else ():
                    flat[k] = values[block.name][_index(self._names[k])]
            x = np.array(self.model.param_unconstrain(flat), dtype=float)
        for block in kept:
            x[self._columns[block.name]] = values[block.name]
        return x

    def _starts(self, rng: np.random.Generator, n: int) -> Array:
        return rng.uniform(-START, START, (n, self.dimension))


def from_bridgestan(model: Any) -> StanProblem:
    """A Stan model, compiled by BridgeStan, as a density to sample.

    Parameters
    ----------
    model : bridgestan.StanModel
        With its data.

    Returns
    -------
    StanProblem
        Its parameters have Stan's names and shapes, and move in Stan's unconstrained coordinates. Stan does not give
        the prior from the likelihood: ladders temper the whole density, and there is no evidence. Starts are uniform in
        (-2, 2) of the unconstrained coordinates, as in Stan. `invsamp.sample` takes it as it takes a `Target`.

    Raises
    ------
    ValueError
        If it is no such model, or has no parameters.

    Examples
    --------
    ``iv.sample(iv.from_bridgestan(bridgestan.StanModel("model.stan", "data.json")))``

    >>> from importlib.util import find_spec
    >>> from pathlib import Path
    >>> import invsamp as iv
    >>> if find_spec("bridgestan") and Path("model.stan").exists():
    ...     import bridgestan
    ...     posterior = iv.from_bridgestan(bridgestan.StanModel("model.stan", data="data.json"))
    ...
    """
    if missing := [name for name in METHODS if not callable(getattr(model, name, None))]:
        raise wrong("model", f"a bridgestan.StanModel, which has {missing[0]}()", model)
    if not model.param_names():
        raise ValueError("model must have parameters, got none")
    return StanProblem(model)


def _base(label: str) -> str:
    return label.split(".")[0]


def _index(label: str) -> tuple[int, ...]:
    """Indices from 0 of an entry such as ``theta.1.2``."""
    return tuple(int(part) - 1 for part in label.split(".")[1:])


def _shapes(labels: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Shapes of parameters, in their order, by the indices of their entries."""
    found: dict[str, tuple[int, ...]] = {}
    for label in labels:
        index, before = _index(label), found.get(_base(label))
        found[_base(label)] = tuple(
            max(last, own + 1) for last, own in zip(before or (0,) * len(index), index, strict=True)
        )
    return found
