"""Priors of the parameters of a network."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numba import njit

from invsamp import arguments
from invsamp.arguments import mapping, real
from invsamp.protocols import AnyArray, Array, Tensor
from invsamp.torch.modules import ModuleFunction, as_array

PRIOR = "a standard deviation, a mapping from names of parameters or layers to these, or a function of the parameters"

#: Of each parameter, (n, *shape); gradients by each, (n, size).
Blocks = tuple[Tensor, ...]
Slopes = list[AnyArray]


@dataclass(frozen=True)
class NormalPrior:
    """Independent normal parameters of mean 0, with a standard deviation for each block."""

    sds: Mapping[str, float]
    sizes: tuple[int, ...]

    def energy(self, position: Array, blocks: Blocks) -> Array:
        """Energies (n,) at positions (n, dimension)."""
        with np.errstate(over="ignore"):  # of diverging chains: their energies are infinite
            return self._constant + 0.5 * np.square(position[:, : sum(self.sizes)] / self.columns).sum(axis=1)

    def add(self, position: Array, blocks: Blocks, slopes: Slopes, gradient: Array) -> Array:
        """Energies (n,), and into ``gradient`` (n, dimension) their gradients and ``slopes`` (n, size), by block."""
        found = np.full(len(position), self._constant)
        held, begin = np.ascontiguousarray(position), 0
        for slope, sd in zip(slopes, self.sds.values(), strict=True):
            _add_normal(held, np.ascontiguousarray(slope), begin, sd**-2.0, gradient, found)
            begin += slope.shape[1]
        return found

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        """Independent draws (n, d)."""
        return self.columns * rng.standard_normal((n, sum(self.sizes)))

    @property
    def columns(self) -> Array:
        """The standard deviation of each parameter (d,)."""
        return np.repeat(list(self.sds.values()), self.sizes)

    @cached_property
    def _constant(self) -> float:
        logs = sum(size * math.log(sd) for size, sd in zip(self.sizes, self.sds.values(), strict=True))
        return logs + 0.5 * sum(self.sizes) * math.log(2.0 * math.pi)

    def __str__(self) -> str:
        return ", ".join(f"{name}: normal, sd {sd:g}" for name, sd in self.sds.items())


class FunctionPrior:
    """A function of the parameters by name as the log density."""

    def __init__(self, function: Callable[[dict[str, Tensor]], Tensor], module: ModuleFunction) -> None:
        self.function, self._module = function, module
        initial = torch.as_tensor(module.initial, dtype=module.dtype, device=module.device)
        found = self._energy(module.blocks(initial))
        if found.shape != () or not bool(torch.isfinite(found)):
            raise ValueError(
                "prior must return a finite log density, a number, at the parameters that the module came with, got "
                f"{found if found.shape == () else tuple(found.shape)}"
            )

    def energy(self, position: Array, blocks: Blocks) -> Array:
        """Energies (n,) at positions (n, dimension)."""
        with torch.no_grad():
            return as_array(torch.func.vmap(self._energy)(blocks))

    def add(self, position: Array, blocks: Blocks, slopes: Slopes, gradient: Array) -> Array:
        """Energies (n,), and into ``gradient`` (n, dimension) their gradients and ``slopes`` (n, size), by block."""
        own, energy = torch.func.vmap(torch.func.grad_and_value(self._energy))(blocks)
        begin = 0
        for slope, part in zip(slopes, own, strict=True):
            end = begin + slope.shape[1]
            np.add(slope, as_array(part).reshape(slope.shape), out=gradient[:, begin:end])
            begin = end
        return as_array(energy)

    def _energy(self, blocks: Blocks) -> Tensor:
        return -self.function(self._module.named(blocks))

    def __str__(self) -> str:
        return f"the function {getattr(self.function, '__qualname__', self.function)}"


@njit(cache=True, fastmath={"reassoc", "contract"})
def _add_normal(position: Array, slope: AnyArray, begin: int, precision: float, gradient: Array, energy: Array) -> None:
    """Add the energy of a block (n, size) from column ``begin`` on, and into ``gradient`` its gradient and ``slope``.

    All in one pass: what a step takes besides the network is mostly to fetch the numbers.
    """
    end = begin + slope.shape[1]
    for i in range(position.shape[0]):
        held, given, found = position[i, begin:end], slope[i], gradient[i, begin:end]
        squares = 0.0
        for j in range(len(held)):
            squares += held[j] * held[j]
            found[j] = given[j] + precision * held[j]
        energy[i] += 0.5 * precision * squares


def as_prior(value: object, module: ModuleFunction) -> NormalPrior | FunctionPrior:
    """The prior that an argument means; `ValueError` if it is none, or leaves parameters without one."""
    sizes = tuple(math.prod(shape) for shape in module.shapes.values())
    if isinstance(value, Mapping):
        return NormalPrior(_by_layer(mapping("prior", value), module), sizes)
    if callable(value):
        return FunctionPrior(arguments.function("prior", value), module)
    sd = real("prior", value, above=0, also=f": {PRIOR}")
    return NormalPrior(dict.fromkeys(module.shapes, sd), sizes)


def _by_layer(given: Mapping[str, object], module: ModuleFunction) -> dict[str, float]:
    """The standard deviation of each parameter, by the longest name in ``given`` that it has or lies in."""
    sds = {name: real(f"prior[{name!r}]", sd, above=0) for name, sd in given.items()}
    found: dict[str, float] = {}
    for name in module.shapes:
        over = [key for key in sds if name == key or (isinstance(key, str) and name.startswith(f"{key}."))]
        if not over:
            raise ValueError(f"prior must have a standard deviation for each of {list(module.shapes)}, got {given}")
        found[name] = sds[max(over, key=len)]
    unknown = [key for key in sds if not any(n == key or n.startswith(f"{key}.") for n in module.shapes)]
    if unknown:
        raise ValueError(f"prior must hold names of {list(module.shapes)} or of their layers, got {unknown[0]!r}")
    return found
