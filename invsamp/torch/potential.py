"""The energy of a network's posterior: a sum over data, differentiated in reverse mode, all chains at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from invsamp.contract import Array, BatchTerms, Gradients, Parts, Tensor, Terms
from invsamp.posing.distribution import Distribution
from invsamp.torch.likelihoods import Likelihood
from invsamp.torch.modules import ModuleFunction, as_array
from invsamp.torch.priors import FunctionPrior, NormalPrior


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
        self._precision = np.dtype(np.float64 if module.dtype == torch.float64 else np.float32)
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
        slope = torch.zeros_like(vectors) if gradient else None
        misfit = np.zeros(len(position))
        for begin in range(0, self.size, self._block):
            rows = slice(begin, begin + self._block)
            x, y = tuple(part[rows] for part in self._x), self._y[rows]
            energies, by_block = self._evaluated(vectors, x, y, (0, None, None), gradient=slope is not None)
            misfit += as_array(energies).sum(axis=1)
            if slope is not None:
                slope += by_block
        prior, prior_slope = self._with_prior(position, vectors, slope, gradient == "apart")
        return Parts(prior + misfit, None if slope is None else as_array(slope), prior, prior_slope)

    def batch_terms(
        self, position: Array, indices: npt.NDArray[np.intp], gradient: Gradients, scale: float
    ) -> BatchTerms:
        """Energies of the data ``indices`` (chains, batch) one by one, and gradients; see `BatchPotential`."""
        vectors = self._vectors(position)
        energies, slope = self._evaluated(vectors, *self._at(indices), (0, 0, 0), gradient=bool(gradient), scale=scale)
        prior, prior_slope = self._with_prior(position, vectors, slope, gradient == "apart")
        return BatchTerms(prior, as_array(energies), None if slope is None else as_array(slope), prior_slope)

    def terms(self, position: Array, indices: npt.NDArray[np.intp]) -> Terms:
        """The same with a gradient for each datum: (chains, batch, dimension) numbers."""
        vectors = self._vectors(position)
        prior, prior_slope = self._with_prior(position, vectors, None, True)
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
            self.batch_terms(position, np.zeros((1, 2), dtype=np.intp), True, 1.0)
        except RuntimeError as error:  # of torch.func
            raise ValueError(f"module must be one that torch.func can transform (vmap, grad), got {error}") from error
        if not np.isfinite(found).all():
            at = int(np.argmin(np.isfinite(found)))
            raise ValueError(
                "the likelihood must be finite at the parameters that the module came with, got a log likelihood of "
                f"{found[at]} for datum {at}: are its inputs and targets finite?"
            )
        first = tuple(part[:1] for part in self._x), self._y[:1]
        alone = -as_array(self._evaluated(self._vectors(position), *first, (0, None, None), gradient=False)[0])[0, 0]
        if not np.isclose(alone, found[0], rtol=1e-3, atol=1e-4):
            raise ValueError(
                "likelihood must return the log likelihood of each datum by itself, got one that depends on the other "
                f"data (their mean, or one over their number?): {alone:.6g} for datum 0 alone, {found[0]:.6g} among "
                "others"
            )

    def _at(self, indices: npt.NDArray[np.intp]) -> tuple[tuple[Tensor, ...], Tensor]:
        """Inputs and targets (chains, batch, ...)."""
        index = torch.as_tensor(indices, device=self._module.device)
        return tuple(part[index] for part in self._x), self._y[index]

    def _evaluated(
        self,
        vectors: Tensor,
        x: tuple[Tensor, ...],
        y: Tensor,
        axes: tuple[object, ...],
        *,
        gradient: bool,
        scale: float = 1.0,
    ) -> tuple[Tensor, Tensor | None]:
        """Energies (chains, n), and gradients of ``scale`` times their sum where they are wanted."""
        if not gradient:
            with torch.no_grad():
                return torch.func.vmap(self._energies, in_dims=axes)(vectors, x, y), None
        # each chain's energies depend on its own row: one backward pass over all of them is less work for torch.func
        with torch.enable_grad():
            leaf = vectors.detach().requires_grad_()
            energies = torch.func.vmap(self._energies, in_dims=axes)(leaf, x, y)
            (slope,) = torch.autograd.grad(energies, leaf, torch.full_like(energies, scale))
        return energies.detach(), slope

    def _energies(self, vector: Tensor, x: tuple[Tensor, ...], y: Tensor) -> Tensor:
        """Minus log likelihoods (n,) at one position (dimension,)."""
        if not self._laws:
            return self._likelihood.energies(self._module(vector, x), y, {})
        weights, logs = vector[: self._module.dimension], vector[self._module.dimension :]
        unknowns = {name: torch.exp(logs[k]) for k, name in enumerate(self._laws)}
        return self._likelihood.energies(self._module(weights, x), y, unknowns)

    def _alone(self, vector: Tensor, x: tuple[Tensor, ...], y: Tensor) -> tuple[Tensor, Tensor]:
        energy = self._energies(vector, tuple(part[None] for part in x), y[None])[0]
        return energy, energy

    def _vectors(self, position: Array) -> Tensor:
        """Positions as the module takes them: a copy, as they may be the chains' own."""
        with np.errstate(over="ignore"):  # of chains that run away: their energies are not finite
            own = position.astype(self._precision)
        return torch.from_numpy(own).to(self._module.device)

    def _with_prior(
        self, position: Array, vectors: Tensor, slope: Tensor | None, apart: bool
    ) -> tuple[Array, Array | None]:
        """Prior energies (chains,) of positions; their gradients are added to ``slope``, and come ``apart``."""
        own = torch.zeros_like(vectors) if apart else slope
        end = self._module.dimension
        weights = None if own is None else own[:, :end]
        value = self._prior.energy(position[:, :end], vectors[:, :end], weights)
        for k, law in enumerate(self._laws.values(), end):
            logs = position[:, k]
            with np.errstate(all="ignore"):
                scale = np.exp(logs[:, None])
                log_density, by_scale = law.evaluate(scale)
            value = value - (log_density + law.log_constant + logs)  # with the Jacobian of the logarithm
            if own is not None:
                own[:, k] -= torch.as_tensor((by_scale * scale + 1.0)[:, 0], dtype=own.dtype, device=own.device)
        if own is not None and apart and slope is not None:
            slope += own
        return value, as_array(own) if own is not None and apart else None
