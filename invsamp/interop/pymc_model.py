"""A PyMC model as a posterior."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from invsamp.arguments import generator, integer, needed, wrong
from invsamp.axis_labels import plain_labels
from invsamp.interop.row_potential import SplitRowPotential
from invsamp.interop.unconstrained_problem import Block, UnconstrainedProblem
from invsamp.protocols import Array, AxisLabels, Plain

#: Half-width of the uniform jitter around PyMC's initial point, where the prior cannot be drawn from.
JITTER = 1.0
WHAT = "a pymc.Model, with observed variables and continuous free variables"


class PymcPosterior(UnconstrainedProblem):
    """The posterior of a PyMC model; made by `from_pymc`.

    Attributes
    ----------
    model : pymc.Model
    shapes : dict of names to shapes
        Free variables, natural where they have as many entries as unconstrained numbers. Others, such as the shares of
        a Dirichlet distribution, are kept as unconstrained numbers by PyMC's own name (``w_simplex__``), and are in
        ``deterministics``.
    deterministics : dict of names to functions
        Of theta (batch, dimension): deterministic variables of the model, and free variables that are not natural. For
        ``record=`` of `invsamp.sample`.
    dims : dict of names to tuples of names of dimensions
    coords : dict of names of dimensions to labels
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        blocks = [
            Block(
                rv.name,
                tuple(model.eval_rv_shapes()[rv.name]),
                int(np.size(model.initial_point()[value.name])),
                value.name,
            )
            for rv, value in zip(model.free_RVs, model.value_vars, strict=True)
        ]
        self._densities = _Densities(model)
        parts = self._densities.values, self._densities.slopes, self._densities.slopes_apart
        potential = SplitRowPotential(sum(block.size for block in blocks), *parts)
        super().__init__(blocks, potential, self._natural, self._unnatural, self._starts, "PymcPosterior")
        self.dims: dict[str, tuple[str, ...]] = {
            name: tuple(dims) for name, dims in model.named_vars_to_dims.items() if None not in dims
        }
        self.coords: Plain = {name: list(labels) for name, labels in model.coords.items() if labels is not None}

    @property
    def data(self) -> Array:
        """Observed values of all observed variables; of one in its own shape."""
        found = [np.asarray(self._observed(rv), dtype=float) for rv in self.model.observed_RVs]
        return found[0] if len(found) == 1 else np.concatenate([values.ravel() for values in found] or [np.empty(0)])

    @property
    def deterministics(self) -> dict[str, Callable[[Array], Array]]:
        """Functions of theta by name, for ``record=`` of `invsamp.sample`."""
        names = [variable.name for variable in self.model.deterministics]
        return super().deterministics | {name: partial(self._deterministic, name) for name in names}

    @property
    def axis_labels(self) -> dict[str, AxisLabels]:
        """Dimensions and coordinates of variables by name, and of the only observed one as ``"data"``."""
        known = {
            name: {dim: plain_labels(np.asarray(self.coords[dim])) for dim in dims}
            for name, dims in self.dims.items()
            if all(dim in self.coords for dim in dims)
        }
        observed = [rv.name for rv in self.model.observed_RVs]
        found = {name: labels for name, labels in known.items() if name not in observed}
        return found | ({"data": known[observed[0]]} if len(observed) == 1 and observed[0] in known else {})

    def log_likelihood(self, theta: object, fidelity: str | None = None) -> Array:
        """Log likelihood of each datum, shape (batch, *data.shape)."""
        positions = self.to_position(np.atleast_2d(np.asarray(theta, dtype=float)))
        rows = []
        for x in positions:
            found = self._pointwise(x)
            rows.append(found[0] if len(found) == 1 else np.concatenate([np.ravel(part) for part in found]))
        return np.array(rows)

    def described(self) -> Plain:
        """Its parts, by which a run that goes on recognizes it."""
        return {"model": self.model.str_repr(), "data": self.data}

    def _natural(self, x: Array) -> Sequence[Array]:
        found: Sequence[Array] = self._to_natural(x)[: len(self.blocks)]
        return found

    def _unnatural(self, values: Mapping[str, Array]) -> Array:
        found = self._to_unconstrained(*(values[block.name] for block in self.blocks))
        return np.concatenate([np.ravel(part) for part in found])

    def _deterministic(self, name: str, theta: Array) -> Array:
        place = len(self.blocks) + [variable.name for variable in self.model.deterministics].index(name)
        return np.stack([np.asarray(self._to_natural(x)[place], dtype=float) for x in self.to_position(theta)])

    def _starts(self, rng: np.random.Generator, n: int) -> Array:
        first = np.concatenate([np.ravel(value) for value in self._initial])
        return first + rng.uniform(-JITTER, JITTER, (n, self.dimension))

    def _observed(self, rv: Any) -> Any:
        value = self.model.rvs_to_values[rv]
        return value.data if hasattr(value, "data") else value.get_value()

    @cached_property
    def _initial(self) -> list[Any]:
        point = self.model.initial_point()
        return [point[value.name] for value in self.model.value_vars]

    @cached_property
    def _to_natural(self) -> Callable[[Array], Any]:
        """Position -> free variables and deterministic ones."""
        model = self.model
        names = [rv.name for rv in model.free_RVs] + [variable.name for variable in model.deterministics]
        by_name = {variable.name: variable for variable in model.unobserved_value_vars}
        return _compiled(
            model,
            model.replace_rvs_by_values([model[name] for name in names])
            if not by_name
            else [by_name[name] for name in names],
        )

    @cached_property
    def _pointwise(self) -> Callable[[Array], Any]:
        model = self.model
        return _compiled(model, model.logp(vars=model.observed_RVs, sum=False))

    @cached_property
    def _to_unconstrained(self) -> Callable[..., Any]:
        """Natural values, or unconstrained numbers of what is not natural -> unconstrained values."""
        import pymc
        from pytensor.graph.replace import graph_replace

        inputs, outputs, given = [], [], {}
        for rv, value, block in zip(self.model.free_RVs, self.model.value_vars, self.blocks, strict=True):
            transform = self.model.rvs_to_transforms[rv]
            own = rv.type(rv.name) if block.natural else value.type(value.name)
            inputs.append(own)
            given[rv] = own if block.natural or transform is None else transform.backward(own, *rv.owner.inputs)
            forward = transform is not None and block.natural
            outputs.append(transform.forward(own, *rv.owner.inputs) if forward else own)
        outputs = graph_replace(outputs, given, strict=False)
        function = pymc.compile(inputs, outputs, on_unused_input="ignore")
        function.trust_input = False
        return lambda *values: function(*(np.asarray(v).astype(i.dtype) for v, i in zip(values, inputs, strict=True)))


class DrawablePymcPosterior(PymcPosterior):
    """One whose prior can be drawn from."""

    def sample_prior(self, rng: np.random.Generator, n: int) -> Array:
        """Independent draws (n, dimension) of theta from the prior."""
        generator("rng", rng), integer("n", n, least=0)
        draws = np.empty((n, self.dimension))
        function, generators = self._drawn
        from pymc.pytensorf import reseed_rngs

        reseed_rngs(generators, int(rng.integers(2**32)))
        for k in range(n):
            row = function()
            draws[k] = np.concatenate([np.ravel(value) for value in row])
        return draws

    def _starts(self, rng: np.random.Generator, n: int) -> Array:
        return self.to_position(self.sample_prior(rng, n))

    @cached_property
    def _drawn(self) -> tuple[Callable[[], Any], list[Any]]:
        """Draws of all free variables, of those that are not natural the unconstrained numbers."""
        import pymc
        from pymc.pytensorf import find_rng_nodes

        wanted = []
        for rv, block in zip(self.model.free_RVs, self.blocks, strict=True):
            transform = self.model.rvs_to_transforms[rv]
            wanted.append(rv if block.natural else transform.forward(rv, *rv.owner.inputs))
        return pymc.compile([], wanted), find_rng_nodes(wanted)


class _Densities:
    """Log prior density and log likelihood of one unconstrained position, compiled at their first use."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def values(self, x: Array) -> tuple[float, float]:
        prior, likelihood = self._values(x)
        return float(prior), float(likelihood)

    def slopes(self, x: Array) -> tuple[float, float, Array]:
        prior, likelihood, slope = self._slopes(x)
        return float(prior), float(likelihood), slope

    def slopes_apart(self, x: Array) -> tuple[float, float, Array, Array]:
        prior, likelihood, slope, prior_slope = self._slopes_apart(x)
        return float(prior), float(likelihood), slope, prior_slope

    @property
    def _parts(self) -> list[Any]:
        model = self._model
        data = [*model.observed_RVs, *model.potentials]
        return [model.logp(vars=model.free_RVs), model.logp(vars=data) if data else 0.0]

    @cached_property
    def _values(self) -> Callable[[Array], Any]:
        return _compiled(self._model, self._parts)

    @cached_property
    def _slopes(self) -> Callable[[Array], Any]:
        prior, likelihood = self._parts
        return _compiled(self._model, [prior, likelihood, _gradient(self._model, prior + likelihood)])

    @cached_property
    def _slopes_apart(self) -> Callable[[Array], Any]:
        prior, likelihood = self._parts
        slopes = _gradient(self._model, prior + likelihood), _gradient(self._model, prior)
        return _compiled(self._model, [prior, likelihood, *slopes])


def from_pymc(model: Any) -> PymcPosterior:
    """A PyMC model as a posterior to sample.

    Parameters
    ----------
    model : pymc.Model
        With continuous free variables. Marginalize discrete ones first.

    Returns
    -------
    PymcPosterior
        Its parameters have PyMC's names, shapes, dimensions and coordinates, and move in PyMC's unconstrained
        coordinates. Prior and likelihood are known apart, so that likelihoods can be tempered; potentials
        (`pymc.Potential`) count as likelihood. Each density is compiled once, with its gradient, at its first use.
        `invsamp.sample` takes it as it takes a `Posterior`.

    Raises
    ------
    ValueError
        If it is no model, has no free variables, or discrete ones.
    ImportError
        If PyMC is not installed: ``pip install 'invsamp[pymc]'``.

    Notes
    -----
    ``pymc.sample_posterior_predictive(run.data, model=model)`` predicts from the draws.

    Examples
    --------
    ``posterior = iv.from_pymc(model)``, then
    ``run = iv.sample(posterior, record=posterior.deterministics)``.

    >>> from importlib.util import find_spec
    >>> import invsamp as iv
    >>> if find_spec("pymc"):
    ...     import pymc
    ...     with pymc.Model() as model:
    ...         mu = pymc.Normal("mu")
    ...     posterior = iv.from_pymc(model)
    ...
    """
    pymc = needed("from_pymc needs", "pymc", "pymc")
    if not isinstance(model, pymc.Model):
        raise wrong("model", WHAT, model)
    if not model.free_RVs:
        raise ValueError(f"model must be {WHAT}, got one without free variables")
    if discrete := [rv.name for rv in model.free_RVs if rv.dtype.startswith(("int", "uint", "bool"))]:
        raise ValueError(
            f"model must be {WHAT}, got discrete {discrete}: marginalize them (pymc_extras.marginalize, or a Mixture)"
        )
    found = DrawablePymcPosterior(model)
    try:
        found.sample_prior(np.random.default_rng(0), 1)
    except NotImplementedError:  # of improper distributions such as pymc.Flat
        return PymcPosterior(model)
    return found


def _compiled(model: Any, outputs: Sequence[Any]) -> Callable[[Array], Any]:
    """Function of one joined unconstrained position (d,)."""
    import pymc
    import pytensor
    from pymc.pytensorf import join_nonshared_inputs
    from pytensor.tensor import as_tensor_variable

    wanted = [as_tensor_variable(output) for output in outputs]
    joined, x = join_nonshared_inputs(model.initial_point(), wanted, model.value_vars)
    function = pymc.compile([x], list(joined), on_unused_input="ignore")
    function.trust_input = x.dtype == pytensor.config.floatX == "float64"
    return function if function.trust_input else lambda position: function(position.astype(x.dtype))


def _gradient(model: Any, output: Any) -> Any:
    """Gradient (d,), taken before the unconstrained values are joined: then it has no assignments to slices."""
    import pytensor

    slopes = pytensor.grad(output, model.value_vars, disconnected_inputs="ignore")
    return pytensor.tensor.concatenate([slope.ravel() for slope in slopes])
