"""A forward model as one fidelity of a posterior has it: guarded, with its columns of theta and its data's noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.errors import ModelError
from invsamp.posing.distributions.random_field import FieldDistribution
from invsamp.posing.expressions.variable_names import labels
from invsamp.posing.forward_models.guarded_model import ONE_THETA, GuardedModel, check_model, same_order
from invsamp.posing.forward_models.log_density import LogDensity
from invsamp.posing.noise.bound_likelihood import BoundNoise
from invsamp.posing.priors.joint_prior import Prior, as_selector
from invsamp.protocols import Array

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class PosedModel:
    """One fidelity of a posterior.

    Attributes
    ----------
    model : GuardedModel
    columns : slice or ndarray
        Of theta, that the model gets, in its order.
    noise : BoundNoise
        Of the data that it predicts.
    among : ndarray, optional
        Which data these are, in C order; None: all.
    inputs : tuple of str
        Names of the columns that the model gets, fixed or not.
    unknowns : tuple of str
        Names of the parameters among these that are not fixed.
    """

    model: GuardedModel
    columns: slice | Indices
    noise: BoundNoise
    among: Indices | None
    inputs: tuple[str, ...] = ()
    unknowns: tuple[str, ...] = ()

    def __call__(self, theta: Array) -> Array:
        """Observations (batch, m) at theta, tied columns included."""
        return self.model(theta[:, self.columns])

    def scattered(self, values: Array, outputs: int, missing: float) -> Array:
        """Values (batch, m) of its own data among all, (batch, outputs)."""
        if self.among is None:
            return values
        full = np.full((len(values), outputs), missing)
        full[:, self.among] = values
        return full

    @property
    def mistake(self) -> ModelError | None:
        """Error to raise where the model has raised at every call, with the cause; None if it has returned once."""
        error = self.model.error
        if error is None:
            return None
        density = isinstance(self.model.model, LogDensity)
        what, rows = ("log-likelihood", "(n,)") if density else ("forward model", f"(n, {self.model.observations})")
        made = ModelError(
            f"the {what} {self.model.name!r} raised {type(error).__name__} wherever it was called, which "
            f"indicates an error in it: {error}. It is given theta of shape (n, {len(self.inputs)}), a row "
            f"for each of n parameter vectors with the columns {list(self.inputs)}, and returns {rows}: "
            f"{ONE_THETA}. parameters=... selects those of the prior's parameters that it gets. If it is "
            "right, and cannot be evaluated there, narrow the prior or the domain, or give start="
        )
        made.__cause__ = error
        return made


def posed_model(
    fidelity: str, model: object, own: tuple[BoundNoise, Indices | None], prior: Prior, shape: tuple[int, ...]
) -> PosedModel:
    """A model with its own of the noise, as `noise_of` has it; ``shape`` is that of all data.

    `ValueError` where it does not fit the prior.
    """
    own_shapes = input_shapes(fidelity, model, own[0], prior)
    names = list(own_shapes)
    free = [name for name in names if name not in prior.fixed]
    if not free:
        raise ValueError(f"forward[{fidelity!r}] must depend on at least one parameter, got none")
    arranged = shape if own[1] is None else None
    guarded = GuardedModel(model, own[0].outputs, fidelity, _fixed(names, prior), arranged=arranged)
    return PosedModel(guarded, as_selector(prior.columns(free)), *own, labels(own_shapes), tuple(free))


def input_shapes(fidelity: str, model: object, bound: BoundNoise, prior: Prior) -> dict[str, tuple[int, ...]]:
    """Name -> shape of all that a model gets, fixed or not; `ValueError` where it does not fit the prior."""
    check_model(fidelity, model)
    names, known = _names(fidelity, model, bound, prior), prior.known_names.shapes
    return {name: prior.fixed[name].shape if name in prior.fixed else known[name] for name in names}


def noise_of(
    fidelity: str, model: object, bound: BoundNoise, shape: tuple[int, ...]
) -> tuple[BoundNoise, Indices | None]:
    """The noise of the data that a model predicts, and which these are: all, unless it says so by ``data_indices``."""
    indices, size = getattr(model, "data_indices", None), bound.outputs
    if indices is None:
        return bound, None
    chosen = np.asarray(indices)
    inside = chosen.dtype.kind == "i" and chosen.ndim == 1 and np.isin(chosen, np.arange(size)).all()
    if not inside or not 0 < len(np.unique(chosen)) == len(chosen):
        raise ValueError(
            f"forward[{fidelity!r}].data_indices must be distinct indices of the {size} data, got {indices}"
        )
    own = bound.subset(chosen)
    check_count(fidelity, model, own.outputs, shape)
    return own, chosen


def check_count(fidelity: str, model: object, size: int, shape: tuple[int, ...]) -> None:
    """`ValueError` unless the model predicts so many data, if it states that; ``shape`` is that of all data."""
    count = getattr(model, "n_observations", None)
    if count is not None and count != size:
        raise ValueError(
            f"data must hold the observations of the forward model {fidelity!r}: it has {count}, got "
            f"{size} data (shape {shape})"
        )
    arranged = getattr(model, "output_shape", None)
    if arranged is not None and getattr(model, "data_indices", None) is None and not same_order(arranged, shape):
        raise ValueError(
            f"data must be arranged as the outputs of the forward model {fidelity!r}, {tuple(arranged)}, got shape "
            f"{shape}: transpose them, or give them in a row in the order of the outputs"
        )


def _names(fidelity: str, model: object, bound: BoundNoise, prior: Prior) -> list[str]:
    """Names of what a model gets, fixed or not."""
    names = getattr(model, "parameters", None)
    if names is None:
        used = {*bound.names, *prior.inner}
        return [name for name in prior.order if name not in used]
    if len(set(names)) != len(names):
        raise ValueError(f"forward[{fidelity!r}].parameters must not repeat a name, got {list(names)}")
    free = [name for name in names if name not in prior.fixed and name not in prior.tied]
    prior.check_names(f"forward[{fidelity!r}].parameters", free)
    _check_sizes(fidelity, getattr(model, "sizes", ()), names, prior)
    _check_grids(fidelity, getattr(model, "grids", {}), prior)
    return list(names)


def _check_sizes(fidelity: str, sizes: Sequence[int], names: Sequence[str], prior: Prior) -> None:
    """Of each parameter the model takes as many entries as the prior gives it, where it says how many."""
    for name, size in zip(names, sizes, strict=False):
        if (given := math.prod(prior.known_names.shape(name, name))) != size:
            wanted = f"shape={size}" if size > 1 else "one number"
            raise ValueError(
                f"prior must give {name!r} {wanted}, as forward[{fidelity!r}] takes it, got {given} entries"
            )


def _check_grids(fidelity: str, grids: Mapping[str, str], prior: Prior) -> None:
    """Where a parameter has its values at the nodes of a mesh, for both, it is the same mesh."""
    for name in prior.fields:
        distribution = prior.distributions[name]
        own = getattr(distribution.field, "grid", None) if isinstance(distribution, FieldDistribution) else None
        if own is not None and grids.get(name, own) != own:
            raise ValueError(
                f"prior must have {name!r} on the mesh on which forward[{fidelity!r}] takes it, got a field of another "
                "mesh: give Nodal(...) the mesh of the field"
            )


def _fixed(names: Sequence[str], prior: Prior) -> Array | None:
    """Values of all that a model gets, NaN for what is not fixed; None if nothing is."""
    fixed, shapes = prior.fixed, prior.known_names.shapes
    if not any(name in fixed for name in names):
        return None
    return np.concatenate(
        [fixed[name].ravel() if name in fixed else np.full(math.prod(shapes[name]), np.nan) for name in names]
    )
