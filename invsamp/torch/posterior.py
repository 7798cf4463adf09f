"""`module_posterior`: the posterior of a network's parameters, as a problem to sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from invsamp.arguments import generator, instance, integer, one_of
from invsamp.domains import Box, Unbounded
from invsamp.domains.constraints import DomainLike, bound_domain, named_columns
from invsamp.domains.contract import Domain
from invsamp.posing.checks.gradient_check import GradientCheck, check_gradient
from invsamp.posing.expressions.variable_names import check_names
from invsamp.protocols import Array, Plain, Reference, Tensor, Torch
from invsamp.torch.likelihoods import Likelihood, as_likelihood
from invsamp.torch.modules import ModuleFunction
from invsamp.torch.outputs import Outputs
from invsamp.torch.potential import ModulePotential
from invsamp.torch.priors import FunctionPrior, NormalPrior, as_prior
from invsamp.torch.tensors import as_data, as_device, as_dtype, as_inputs, same_rows

#: Name of the one fidelity.
FIDELITY = "module"
#: How often starts and draws are tried that have to lie inside a domain.
TRIES = 1000


def module_posterior(
    module: Torch,
    data: tuple[object, object],
    likelihood: Likelihood | Callable[[Tensor, Tensor], Tensor],
    prior: float | Mapping[str, float] | Callable[[dict[str, Tensor]], Tensor] = 1.0,
    *,
    domain: DomainLike | None = None,
    dtype: object = None,
    device: object = None,
    start: str = "initial",
    block: int = 1000,
) -> ModulePosterior:
    r"""The posterior of the parameters of a `torch.nn.Module`.

    .. math:: U(w) = -\log p(w) - \sum_{i=1}^N \log p(y_i \mid f_w(x_i))

    Energies and gradients are those of the sum over all N data, never of a mean: step sizes are N times smaller than
    learning rates of a mean loss. Minibatches (`invsamp.estimators.minibatch`) evaluate their own data alone and sum
    gradients; a gradient for each datum, (chains, batch, d) numbers, is made only where `invsamp.ladder.GradientNoise`
    wants the variance.

    Parameters
    ----------
    module : torch.nn.Module
        Its trainable parameters (``requires_grad``) are the unknowns, as blocks of their names; all else stays. It must
        be a function of inputs and parameters that takes each datum by itself: put dropout and batch normalization to
        rest by ``module.eval()``. A copy is kept. A parameter that several layers share is one block, with a warning.
    data : pair (inputs, targets)
        Tensors or arrays of N rows; inputs may be a tuple of several, for modules with several arguments. Copies are
        kept.
    likelihood : Likelihood or function
        `categorical`, `gaussian`, or a function (outputs (n, ...), targets (n, ...)) -> log likelihoods (n,) of each
        datum, which `torch.func` can differentiate.
    prior : float, mapping or function
        Independent normal parameters of mean 0, by their standard deviation: of all, or of each parameter or layer by
        its name; "weight decay" is one over its square. Or a function of the parameters by name, a dict of tensors, ->
        log density.
    domain : Domain, constraint or its text, or a sequence of these, optional
        Where the parameters must lie, at which moves are reflected: ``iv.Box(-4, 4)``.
    dtype : torch.float32 or torch.float64, or their names "float32", "float64", optional
        Default: the module's.
    device : torch.device or str, optional
        Where all is evaluated; positions and random numbers are those of NumPy. Default: the module's.
    start : "initial" or "prior"
        Where chains begin: each as the layers initialize themselves (parameters that belong to no layer with
        ``reset_parameters`` as they came), or at draws of the prior.
    block : int
        Data at a time in passes over all of them.

    Raises
    ------
    ValueError
        If an argument is wrong: a module that changes while it is evaluated, or whose rows depend on each other. Data
        on another device. Targets that do not fit the likelihood, or one that does not give a number for each datum.
        A loss that is not finite. Parameters without a prior.

    Warns
    -----
    UserWarning
        Of parameters that several layers share.

    Examples
    --------
    >>> import torch
    >>> import invsamp as iv
    >>> from invsamp.torch import categorical, module_posterior
    >>> x = torch.randn(200, 4)
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    >>> posterior = module_posterior(net, (x, x[:, :3].argmax(dim=1)), categorical())
    >>> sampler = iv.samplers.sghmc(1e-3, estimator=iv.estimators.minibatch(50))
    >>> run = iv.sample(posterior, sampler, draws=100, seed=1, progress=False)
    """
    instance("module", module, torch.nn.Module, "a torch.nn.Module")
    first = next(iter(module.parameters()), None)
    if first is None:
        raise ValueError("module must have parameters that are trainable (requires_grad), got none")
    used = as_dtype(first.dtype if dtype is None else dtype)
    place = as_device(first.device if device is None else device)
    function = ModuleFunction(module, used, place)
    x, y = as_data(data, used, place)
    parts = as_likelihood(likelihood), as_prior(prior, function), (x, y)
    potential = ModulePotential(function, *parts, integer("block", block, least=1))
    potential.check()
    kind = DrawableModulePosterior if isinstance(parts[1], NormalPrior) else ModulePosterior
    return kind(function, potential, *parts, domain, start)


class ModulePosterior:
    """The posterior of a network's parameters. Made by `module_posterior`.

    Attributes
    ----------
    dimension : int
    shapes : dict of names to tuples
        The module's parameters by their names, then the likelihood's unknowns.
    """

    def __init__(
        self,
        module: ModuleFunction,
        potential: ModulePotential,
        likelihood: Likelihood,
        prior: NormalPrior | FunctionPrior,
        data: tuple[tuple[Tensor, ...], Tensor],
        domain: DomainLike | None,
        start: str,
    ) -> None:
        self._module, self._potential, self._prior, self._data = module, potential, prior, data
        self.likelihood = likelihood
        self.shapes: dict[str, tuple[int, ...]] = module.shapes | dict.fromkeys(likelihood.unknowns, ())
        if clash := set(module.shapes) & set(likelihood.unknowns):
            raise ValueError(f"scale must have a name that no parameter has, got {clash.pop()!r}")
        check_names(self.shapes)
        self.dimension = potential.dimension
        self._start = one_of("start", start, ("initial", "prior"))
        if start == "prior" and isinstance(prior, FunctionPrior):
            raise ValueError("start must be 'initial' where the prior is a function, which cannot be drawn from")
        self.sampling_domain = self._bound(domain)

    @property
    def fidelities(self) -> tuple[str, ...]:
        """One."""
        return (FIDELITY,)

    @property
    def support(self) -> Domain:
        """Domain of theta: the same, as it constrains what is sampled as itself."""
        return self.sampling_domain

    @property
    def domain(self) -> Domain:
        """The whole domain can be left out."""
        return self.sampling_domain

    @cached_property
    def data(self) -> Array:
        """The targets."""
        return np.asarray(self._data[1].cpu().to(torch.float64).numpy())

    def without_domain(self) -> ModulePosterior:
        """The same posterior without its domain."""
        parts = self._module, self._potential, self.likelihood, self._prior, self._data
        return type(self)(*parts, None, self._start)

    def potential(self, fidelity: str | None = None) -> ModulePotential:
        """The energy."""
        if fidelity is not None:
            one_of("fidelity", fidelity, self.fidelities)
        return self._potential

    def to_theta(self, position: npt.ArrayLike) -> Array:
        """Natural parameters (..., dimension): the positions, but for the likelihood's unknowns, whose logarithms
        these are."""
        return self._mapped(position, np.exp)

    def to_position(self, theta: npt.ArrayLike) -> Array:
        """Positions (..., dimension) of natural parameters."""
        return self._mapped(theta, np.log)

    def sample_start(self, rng: np.random.Generator, n: int) -> Array:
        """Starting positions (n, dimension) inside the domain."""
        generator("rng", rng), integer("n", n, least=0)
        return self._inside(rng, n, self._starts)

    def outputs(self, x: Tensor, *, block: int = 1000) -> Outputs:
        """The module's outputs for some inputs, as a function of theta: to be recorded, ``record={"logits": ...}``.

        Parameters
        ----------
        x : tensor or array, or a tuple of these
            Inputs of n rows.
        block : int
            Rows at a time.

        Returns
        -------
        Outputs
            Theta (batch, dimension) -> outputs (batch, n, ...), arrays in the module's precision.

        Raises
        ------
        ValueError
            If the inputs are none, lie on another device, or are not such as the module takes.
        """
        rows = as_inputs("x", x, self._module.dtype, self._module.device)
        same_rows("x", rows)
        self._module.tried("x", rows)
        return Outputs(self._module, rows, integer("block", block, least=1))

    def log_likelihood(self, theta: object, fidelity: str | None = None) -> Array:
        """Log likelihood of each datum, shape (batch, N), at theta (batch, dimension)."""
        rows = np.atleast_2d(np.asarray(theta, dtype=float))
        if rows.shape[1:] != (self.dimension,):
            raise ValueError(f"theta must have shape (batch, {self.dimension}), got {rows.shape}")
        return self._potential.log_likelihood(self.to_position(rows))

    def check_gradient(self, seed: int = 0) -> GradientCheck:
        """Check of the energy's gradient at a start, in a random direction; see `Posterior.check_gradient`."""
        rng = np.random.default_rng(integer("seed", seed, least=0))
        position = self.sample_start(rng, 1)[0]
        return check_gradient(self._potential, position, rng.standard_normal(self.dimension))

    def described(self) -> Plain:
        """Its parts, by which a run that goes on recognizes it."""
        return {
            "prior": str(self._prior),
            "noise": self.likelihood,
            "forward": {FIDELITY: repr(self._module)},
            "data": self.data,
        }

    def _mapped(self, values: npt.ArrayLike, function: Callable[[Array], Array]) -> Array:
        """Values (..., dimension), those of the likelihood's unknowns by a function."""
        found = np.asarray(values, dtype=float)
        if self.likelihood.unknowns:
            found = found.copy()
            with np.errstate(divide="ignore", invalid="ignore"):
                found[..., self._module.dimension :] = function(found[..., self._module.dimension :])
        return found

    def _starts(self, rng: np.random.Generator, n: int) -> Array:
        weights = self._module.drawn(rng, n)
        return np.concatenate([weights, self._scales(rng, n)], axis=1)

    def _scales(self, rng: np.random.Generator, n: int) -> Array:
        """Logarithms (n, k) of draws of the likelihood's unknowns."""
        columns = [np.log(target.sample(rng, n)).reshape(n, 1) for target in self.likelihood.unknowns.values()]
        return np.concatenate([np.empty((n, 0)), *columns], axis=1)

    def _inside(self, rng: np.random.Generator, n: int, draw: Callable[[np.random.Generator, int], Array]) -> Array:
        """Draws (n, dimension) that lie inside the domain."""
        found = draw(rng, n)
        domain = self.sampling_domain
        for _ in range(0 if isinstance(domain, Unbounded) else TRIES):
            outside = ~domain.contains(found)
            if not outside.any():
                return found
            new = draw(rng, int(outside.sum()))
            # bounds of a box hold for each entry by itself
            found[outside] = np.where(_within(domain, found[outside]), found[outside], new)
        if not domain.contains(found).all():
            raise ValueError(f"domain must hold some of the starts, got none of {TRIES} in {domain!r}: give start=...")
        return found

    def _bound(self, domain: DomainLike | None) -> Domain:
        if domain is None or isinstance(domain, Unbounded):
            return Unbounded()
        if not self.likelihood.unknowns:
            columns = {} if isinstance(domain, Box) else named_columns(self.shapes)
            return bound_domain(domain, columns, self.dimension)
        if not isinstance(domain, Box) or domain.dimension is not None:
            raise ValueError(
                f"domain must be a box of two numbers, which holds the module's parameters alone, where the scale is "
                f"unknown, got {domain!r}"
            )
        free = np.arange(self.dimension) >= self._module.dimension
        return Box(np.where(free, -np.inf, domain.lower), np.where(free, np.inf, domain.upper))

    def __repr__(self) -> str:
        blocks = ", ".join(f"{name} {shape}" for name, shape in self.shapes.items())
        return (
            f"ModulePosterior({self.dimension:,} parameters: {blocks}; {self._potential.size:,} data, "
            f"{self.likelihood}; prior {self._prior}; {str(self._module.dtype).removeprefix('torch.')} on "
            f"{self._module.device})"
        )


class DrawableModulePosterior(ModulePosterior):
    """One whose prior can be drawn from: a normal one."""

    _prior: NormalPrior

    def sample_prior(self, rng: np.random.Generator, n: int) -> Array:
        """Independent draws (n, dimension) of theta from the prior restricted to the domain."""
        generator("rng", rng), integer("n", n, least=0)
        return self.to_theta(self._inside(rng, n, self._prior_draws))

    def reference(self) -> Reference:
        """The prior's Gaussian in positions; of an unknown scale, that with the moments of its logarithm."""
        logs = self._scales(np.random.default_rng(0), 1000)
        mean = np.concatenate([np.zeros(self._module.dimension), logs.mean(axis=0)])
        return Reference(mean, np.concatenate([self._prior.columns, logs.std(axis=0)]))

    def _prior_draws(self, rng: np.random.Generator, n: int) -> Array:
        return np.concatenate([self._prior.sample(rng, n), self._scales(rng, n)], axis=1)

    def _starts(self, rng: np.random.Generator, n: int) -> Array:
        return self._prior_draws(rng, n) if self._start == "prior" else super()._starts(rng, n)


def _within(domain: Domain, position: Array) -> npt.NDArray[np.bool_]:
    """Which entries of positions (n, d) may stay: of a box those within its bounds, else none."""
    if isinstance(domain, Box):
        return np.asarray((position >= domain.lower) & (position <= domain.upper))
    return np.zeros(position.shape, dtype=bool)
