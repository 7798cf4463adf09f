"""The energy of a network's posterior: a sum over data, differentiated in reverse mode, all chains at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch

from invsamp.posing.distributions.base import Distribution
from invsamp.protocols import Array, BatchTerms, Gradients, Parts, Tensor, Terms
from invsamp.torch.likelihoods import Likelihood
from invsamp.torch.modules import ModuleFunction, as_array
from invsamp.torch.priors import Blocks, FunctionPrior, NormalPrior, Slopes

#: Parameters of a module from which on vmap over a few chains takes longer, on a processor, than one after the other.
LARGE = 50_000
#: A gradient by block, (chains, *shape).
Slope = Blocks | None


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
        self._targets: dict[str, Distribution] = likelihood.unknowns
        self._precision = np.dtype(np.float64 if module.dtype == torch.float64 else np.float32)
        self.size = len(self._y)
        #: Whether chains are differentiated one by one: for one chain of a large module in 0.6 of the time of vmap.
        self._by_row = module.dimension >= LARGE and torch.device(module.device).type == "cpu"
        self.dimension = module.dimension + len(self._targets)

    @property
    def derivative_error(self) -> float:
        """Relative error of a derivative in single precision."""
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
        blocks = self._blocks(position)
        slopes: Slope = None
        misfit = np.zeros(len(position))
        for energies, more in self._of_all_data(blocks, gradient=bool(gradient)):
            misfit += as_array(energies).sum(axis=1)
            slopes = more if slopes is None or more is None else tuple(map(torch.add, slopes, more))
        prior, whole, apart = self._with_prior(position, blocks, slopes, gradient)
        return Parts(prior + misfit, whole, prior, apart)

    def batch_terms(
        self, position: Array, indices: npt.NDArray[np.intp], gradient: Gradients, scale: float
    ) -> BatchTerms:
        """Energies of the data ``indices`` (chains, batch) one by one, and gradients; see `BatchPotential`."""
        blocks = self._blocks(position)
        energies, slopes = self._evaluated(blocks, *self._at(indices), (0, 0, 0), gradient=bool(gradient), scale=scale)
        prior, whole, apart = self._with_prior(position, blocks, slopes, gradient)
        return BatchTerms(prior, as_array(energies), whole, apart)

    def terms(self, position: Array, indices: npt.NDArray[np.intp]) -> Terms:
        """The same with a gradient for each datum: (chains, batch, dimension) numbers."""
        vectors = self._vectors(position)
        blocks = self._split(vectors)
        prior, prior_slope, _ = self._with_prior(position, blocks, tuple(map(torch.zeros_like, blocks)), True)
        assert prior_slope is not None  # it was asked for
        x, y = self._at(indices)
        each = torch.func.vmap(torch.func.grad(self._alone, has_aux=True), in_dims=(None, 0, 0))
        slope, energies = torch.func.vmap(each)(vectors, x, y)
        return Terms(prior, prior_slope, as_array(energies), as_array(slope))

    def log_likelihood(self, position: Array) -> Array:
        """Log likelihood of each datum, shape (chains, n)."""
        found = self._of_all_data(self._blocks(position), gradient=False)
        return np.concatenate([-as_array(energies) for energies, _ in found], axis=1)

    def check(self) -> None:
        """`ValueError` unless module, likelihood and data fit together, and losses are finite where the module is."""
        output = self._module.check(self._x)
        self._likelihood.check(output, self._y)
        position = np.zeros((1, self.dimension))
        position[0, : self._module.dimension] = self._module.initial
        try:
            found = self.log_likelihood(position)[0]
            self.batch_terms(position, np.zeros((1, 2), dtype=np.intp), True, 1.0)
        except RuntimeError as error:  # of torch.func
            raise ValueError(
                f"module and likelihood must be such as torch.func can transform (vmap, grad), got {error}"
            ) from error
        if not np.isfinite(found).all():
            at = int(np.argmin(np.isfinite(found)))
            raise ValueError(
                "the likelihood must be finite at the parameters that the module came with, got a log likelihood of "
                f"{found[at]} for datum {at}: are its inputs and targets finite?"
            )
        first = tuple(part[:1] for part in self._x), self._y[:1]
        alone = -as_array(self._evaluated(self._blocks(position), *first, (0, None, None), gradient=False)[0])[0, 0]
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

    def _of_all_data(self, blocks: Blocks, *, gradient: bool) -> Iterator[tuple[Tensor, Slope]]:
        """As `_evaluated`, a block of the data at a time."""
        for begin in range(0, self.size, self._block):
            rows = slice(begin, begin + self._block)
            x, y = tuple(part[rows] for part in self._x), self._y[rows]
            yield self._evaluated(blocks, x, y, (0, None, None), gradient=gradient)

    def _evaluated(
        self,
        blocks: Blocks,
        x: tuple[Tensor, ...],
        y: Tensor,
        axes: tuple[object, ...],
        *,
        gradient: bool,
        scale: float = 1.0,
    ) -> tuple[Tensor, Slope]:
        """Energies (chains, n), and gradients of ``scale`` times their sum where they are wanted."""
        if not gradient:
            with torch.no_grad():
                return torch.func.vmap(self._energies, in_dims=axes)(blocks, x, y), None
        if self._by_row:
            rows = range(len(blocks[0]))
            found = [self._of_row(k, blocks, x, y, axes[1] is not None, scale) for k in rows]
            energies = torch.stack([each for each, _ in found])
            return energies, tuple(map(torch.stack, zip(*(slopes for _, slopes in found), strict=True)))
        # each chain's energies depend on its own rows: one backward pass over all of them is less work for torch.func
        with torch.enable_grad():
            leaves = tuple(block.detach().requires_grad_() for block in blocks)
            energies = torch.func.vmap(self._energies, in_dims=axes)(leaves, x, y)
            weights = torch.full_like(energies, scale)
            return energies.detach(), torch.autograd.grad(energies, leaves, weights, materialize_grads=True)

    def _of_row(
        self, k: int, blocks: Blocks, x: tuple[Tensor, ...], y: Tensor, own: bool, scale: float
    ) -> tuple[Tensor, Blocks]:
        """The same of chain k alone, which may have data of its ``own``."""
        xs, ys = (tuple(part[k] for part in x), y[k]) if own else (x, y)
        with torch.enable_grad():
            leaves = tuple(block[k].detach().requires_grad_() for block in blocks)
            energies = self._energies(leaves, xs, ys)
            weights = torch.full_like(energies, scale)
            return energies.detach(), torch.autograd.grad(energies, leaves, weights, materialize_grads=True)

    def _energies(self, blocks: Blocks, x: tuple[Tensor, ...], y: Tensor) -> Tensor:
        """Minus log likelihoods (n,) at one position."""
        if not self._targets:
            return self._likelihood.energies(self._module(blocks, x), y, {})
        count = len(self._module.shapes)
        unknowns = {name: torch.exp(log) for name, log in zip(self._targets, blocks[count:], strict=True)}
        return self._likelihood.energies(self._module(blocks[:count], x), y, unknowns)

    def _alone(self, vector: Tensor, x: tuple[Tensor, ...], y: Tensor) -> tuple[Tensor, Tensor]:
        energy = self._energies(self._split(vector), tuple(part[None] for part in x), y[None])[0]
        return energy, energy

    def _blocks(self, position: Array) -> Blocks:
        """Positions (chains, dimension) as parameters (chains, *shape), then logarithms of the unknowns (chains,)."""
        return self._split(self._vectors(position))

    def _split(self, vectors: Tensor) -> Blocks:
        """Vectors (..., dimension) as these."""
        end = self._module.dimension
        return *self._module.blocks(vectors[..., :end]), *(vectors[..., k] for k in range(end, self.dimension))

    def _vectors(self, position: Array) -> Tensor:
        """Positions as the module takes them: a copy, as they may be the chains' own."""
        with np.errstate(over="ignore"):  # of diverging chains: their energies are not finite
            own = position.astype(self._precision)
        return torch.from_numpy(own).to(self._module.device)

    def _with_prior(
        self, position: Array, blocks: Blocks, slopes: Slope, gradient: Gradients
    ) -> tuple[Array, Array | None, Array | None]:
        """Prior energies (chains,); ``slopes`` with their gradients, and these apart, where they are wanted."""
        if slopes is None:
            count = len(self._module.shapes)
            return self._prior.energy(position, blocks[:count]) + self._of_unknowns(position, None), None, None
        misfit = [slope.detach().cpu().numpy().reshape(len(position), -1) for slope in slopes]
        whole = np.empty(position.shape)
        if gradient != "apart":
            return self._added(position, blocks, misfit, whole), whole, None
        apart = np.empty(position.shape)
        prior = self._added(position, blocks, list(map(np.zeros_like, misfit)), apart)
        np.concatenate(misfit, axis=1, out=whole)
        whole += apart
        return prior, whole, apart

    def _added(self, position: Array, blocks: Blocks, misfit: Slopes, gradient: Array) -> Array:
        """Prior energies (chains,), and into ``gradient`` (chains, d) their gradients and that of the misfit."""
        count = len(self._module.shapes)
        for k, slope in enumerate(misfit[count:], self._module.dimension):
            gradient[:, k] = slope[:, 0]
        found = self._prior.add(position, blocks[:count], misfit[:count], gradient)
        return found + self._of_unknowns(position, gradient)

    def _of_unknowns(self, position: Array, gradient: Array | None) -> Array:
        """Prior energies (chains,) of the likelihood's unknowns, to whose ``gradient`` theirs is added."""
        found = np.zeros(len(position))
        for k, target in enumerate(self._targets.values(), self._module.dimension):
            logs = position[:, k]
            with np.errstate(all="ignore"):
                scale = np.exp(logs[:, None])
                log_density, by_scale = target.evaluate(scale)
            found -= log_density + target.log_constant + logs  # with the Jacobian of the logarithm
            if gradient is not None:
                gradient[:, k] -= (by_scale * scale + 1.0)[:, 0]
        return found
