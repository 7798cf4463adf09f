"""The energy of a network's posterior: a sum over data, differentiated in reverse mode, all chains at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from invsamp.contract import Array, BatchTerms, Gradients, Parts, Terms
from invsamp.posing.distribution import Distribution
from invsamp.torch.likelihoods import Likelihood
from invsamp.torch.modules import ModuleFunction, as_array
from invsamp.torch.priors import FunctionPrior, NormalPrior

Tensor = Any


class ModulePotential:
    """Energy at positions: the parameters of the module, then the logarithms of the likelihood's unknowns.

    Parameters
    ----------
    module : ModuleFunction
    likelihood : Likelihood
    prior : NormalPrior or FunctionPrior
    data : tuple of tensors, and tensor
        Inputs and targets, n rows each.
    block : int
        Data at a time where all are taken.
    """

    def __init__(
        self,
        module: ModuleFunction,
        likelihood: Likelihood,
        prior: NormalPrior | FunctionPrior,
        data: tuple[tuple[Tensor, ...], Tensor],
        block: int,
    ) -> None:
        self._module, self._likelihood, self._prior = module, likelihood, prior
        self._x, self._y = data
        self._block = block
        self._laws: dict[str, Distribution] = likelihood.unknowns
        self.size = len(self._y)
        self.dimension = module.dimension + len(self._laws)

    @property
    def derivative_error(self) -> float:
        """What single precision leaves of a derivative."""
        return 0.0 if self._module.dtype == torch.float64 else 1e-3

    @property
    def single_precision(self) -> bool:
        """Whether energies have no more digits."""
        return bool(self._module.dtype == torch.float32)

    def energy(self, position: Array) -> Array:
        """Energy, shape (chains,)."""
        return self.parts(position, False).energy

    def energy_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """Energy (chains,) and its gradient (chains, dimension)."""
        energy, gradient, _, _ = self.parts(position, True)
        assert gradient is not None  # it was asked for
        return energy, gradient

    def parts(self, position: Array, gradient: Gradients) -> Parts:
        """Energy and, of it, what is the prior's; all data are taken, a block at a time."""
        vectors = self._vectors(position)
        prior, prior_slope = self._prior_at(position, vectors, bool(gradient))
        misfit = np.zeros(len(position))
        slope = torch.zeros_like(vectors) if gradient else None
        for begin in range(0, self.size, self._block):
            rows = slice(begin, begin + self._block)
            x, y = tuple(part[rows] for part in self._x), self._y[rows]
            energies, by_block = self._evaluated(vectors, x, y, (0, None, None), gradient=slope is not None)
            misfit += as_array(energies).sum(axis=1)
            if slope is not None:
                slope += by_block
        whole = None if slope is None or prior_slope is None else as_array(slope) + prior_slope
        return Parts(prior + misfit, whole, prior, prior_slope if gradient == "apart" else None)

    def batch_terms(self, position: Array, indices: npt.NDArray[np.intp], gradient: bool) -> BatchTerms:
        """Energies of the data ``indices`` (chains, batch) one by one, and the sum of their gradients."""
        vectors = self._vectors(position)
        prior, prior_slope = self._prior_at(position, vectors, gradient)
        energies, slope = self._evaluated(vectors, *self._at(indices), (0, 0, 0), gradient=gradient)
        return BatchTerms(prior, prior_slope, as_array(energies), None if slope is None else as_array(slope))

    def terms(self, position: Array, indices: npt.NDArray[np.intp]) -> Terms:
        """The same with a gradient for each datum: (chains, batch, dimension) numbers."""
        vectors = self._vectors(position)
        prior, prior_slope = self._prior_at(position, vectors, True)
        assert prior_slope is not None  # it was asked for
        x, y = self._at(indices)
        each = torch.func.vmap(torch.func.grad(self._alone, has_aux=True), in_dims=(None, 0, 0))
        slope, energies = torch.func.vmap(each)(vectors, x, y)
        return Terms(prior, prior_slope, as_array(energies), as_array(slope))

    def log_likelihood(self, position: Array) -> Array:
        """Log likelihood of each datum, shape (chains, n)."""
        vectors, found = self._vectors(position), []
        for begin in range(0, self.size, self._block):
            rows = slice(begin, begin + self._block)
            x, y = tuple(part[rows] for part in self._x), self._y[rows]
            found.append(-as_array(self._evaluated(vectors, x, y, (0, None, None), gradient=False)[0]))
        return np.concatenate(found, axis=1)

    def check(self) -> None:
        """`ValueError` unless module, likelihood and data fit together, and losses are finite where the module is."""
        output = self._module.check(self._x)
        self._likelihood.check(output, self._y[: len(output)])
        position = np.zeros((1, self.dimension))
        position[0, : self._module.dimension] = self._module.initial
        try:
            found = self.log_likelihood(position)[0]
            self.batch_terms(position, np.zeros((1, 2), dtype=np.intp), True)
        except RuntimeError as error:  # of torch.func
            raise ValueError(f"module must be one that torch.func can transform (vmap, grad), got {error}") from error
        if not np.isfinite(found).all():
            at = int(np.argmin(np.isfinite(found)))
            raise ValueError(
                "the likelihood must be finite at the parameters that the module came with, got a log likelihood of "
                f"{found[at]} for datum {at}: are its inputs and targets finite?"
            )

    def _at(self, indices: npt.NDArray[np.intp]) -> tuple[tuple[Tensor, ...], Tensor]:
        """Inputs and targets (chains, batch, ...)."""
        index = torch.as_tensor(indices, device=self._module.device)
        return tuple(part[index] for part in self._x), self._y[index]

    def _evaluated(
        self, vectors: Tensor, x: tuple[Tensor, ...], y: Tensor, axes: tuple[object, ...], *, gradient: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Energies (chains, n), and gradients of their sum where they are wanted."""
        if not gradient:
            with torch.no_grad():
                return torch.func.vmap(self._energies, in_dims=axes)(vectors, x, y), None
        slope, energies = torch.func.vmap(torch.func.grad(self._sum, has_aux=True), in_dims=axes)(vectors, x, y)
        return energies, slope

    def _energies(self, vector: Tensor, x: tuple[Tensor, ...], y: Tensor) -> Tensor:
        """Minus log likelihoods (n,) at one position (dimension,)."""
        if not self._laws:
            return self._likelihood.energies(self._module(vector, x), y, {})
        weights, logs = vector[: self._module.dimension], vector[self._module.dimension :]
        unknowns = {name: torch.exp(logs[k]) for k, name in enumerate(self._laws)}
        return self._likelihood.energies(self._module(weights, x), y, unknowns)

    def _sum(self, vector: Tensor, x: tuple[Tensor, ...], y: Tensor) -> tuple[Tensor, Tensor]:
        energies = self._energies(vector, x, y)
        return energies.sum(), energies

    def _alone(self, vector: Tensor, x: tuple[Tensor, ...], y: Tensor) -> tuple[Tensor, Tensor]:
        energy = self._energies(vector, tuple(part[None] for part in x), y[None])[0]
        return energy, energy

    def _vectors(self, position: Array) -> Tensor:
        return torch.from_numpy(position).to(dtype=self._module.dtype, device=self._module.device)

    def _prior_at(self, position: Array, vectors: Tensor, gradient: bool) -> tuple[Array, Array | None]:
        """Prior energies (chains,) of positions, and their gradients where they are wanted."""
        if not self._laws:
            return self._prior.evaluate(position, vectors, gradient)
        end = self._module.dimension
        value, found = self._prior.evaluate(position[:, :end], vectors[:, :end], gradient)
        columns, slopes = position[:, self._module.dimension :], []
        for k, law in enumerate(self._laws.values()):
            scale = np.exp(columns[:, k : k + 1])
            with np.errstate(all="ignore"):
                log_density, by_scale = law.evaluate(scale)
            value = value - (log_density + law.log_constant + columns[:, k])  # with the Jacobian of the logarithm
            slopes.append(-(by_scale * scale + 1.0))
        return value, None if found is None else np.concatenate([found, *slopes], axis=1)
