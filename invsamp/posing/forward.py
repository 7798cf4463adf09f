"""Forward models at work: what a failing solve does, and what a mistake in the model does."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp import arguments
from invsamp.contract import (
    AnticipatingModel,
    Array,
    Cotangent,
    FunctionCalls,
    VectorJacobianProduct,
    function_calls,
    no_derivatives,
)

FLOAT = np.dtype(float)


class ModelError(ValueError):
    """A mistake in the model or around it, which no other theta would mend: it ends a run; a failed solve does not."""


class WrongShapeError(ModelError):
    """A model returned an array of the wrong shape: a mistake in the model, not a failed solve."""


class GuardedModel:
    """A model of which one failing row does not take the batch down.

    A call that raises is repeated row by row, and the rows that raise again become NaN. A `ModelError` is raised at
    once, so is a wrong shape, as `WrongShapeError`. A model may write into the theta that it is given, which is a copy,
    and use the memory of what it returns again.

    Parameters
    ----------
    model : ForwardModel
    observations : int
        Number of observations that the model has to return, m.
    name : str
        Name of the fidelity, for messages.
    fixed : ndarray, shape (p,), optional
        Values of all that the model gets, NaN for what is not fixed: theta has those alone.
    derivatives : bool
        Whether a model that says that it has none is refused.
    """

    def __init__(
        self, model: Any, observations: int, name: str, fixed: Array | None = None, *, derivatives: bool = True
    ) -> None:
        if not callable(model) or not callable(getattr(model, "linearize", None)):
            raise ValueError(
                f"forward[{name!r}] must be callable and have linearize, got {model!r}: "
                "wrap a plain function by with_jacobian or finite_differences"
            )
        reason = no_derivatives(model)
        if reason and derivatives:
            raise ValueError(f"forward[{name!r}] must have derivatives, but {reason}. Or wrap it by finite_differences")
        self.model = model
        self.observations = observations
        self.name = name
        self._observed = f"observations of forward model {name!r}", (observations,)
        self._product = f"the vector-Jacobian product of {name!r}"
        self._message: str | None = None
        self._fixed, self._free = fixed, None if fixed is None else np.flatnonzero(np.isnan(fixed))
        self.has_jacobian = callable(getattr(model, "jacobian", None))
        self.has_rows = callable(getattr(model, "rows", None))
        self._anticipates = isinstance(model, AnticipatingModel)

    @property
    def message(self) -> str | None:
        """What the last failure said: the last exception, or the model's own ``message`` if it has one."""
        return self._message if self._message is not None else getattr(self.model, "message", None)

    def function_calls(self, columns: int) -> FunctionCalls:
        """Calls of the model's function for one row of theta of so many columns."""
        return function_calls(self.model).at(columns if self._fixed is None else len(self._fixed))

    def __call__(self, theta: Array) -> Array:
        """Observations (batch, m); NaN in the rows that failed."""
        (y,) = self._guarded(
            lambda rows: (self.model(self.given(theta[rows])),), slice(0, len(theta)), (self._observed,)
        )
        return y

    def linearize(
        self, theta: Array, towards: tuple[Cotangent, Array] | None = None
    ) -> tuple[Array, VectorJacobianProduct]:
        """Observations and vector-Jacobian product; NaN in the rows that failed.

        Where the cotangent is known beforehand, with what gives it; see `invsamp.contract.AnticipatingModel`.
        """
        try:
            given, known = self.given(theta), towards if self._anticipates else None
            y, vjp = self.model.linearize(given) if known is None else self.model.linearize_towards(given, *known)
            y = _shaped(y, (len(theta), self.observations), self._observed[0])
        except ModelError:
            raise
        except Exception as error:
            self._note(error)
            return self._linearize_rows(theta)

        def guarded(cotangent: Array) -> Array:
            try:
                return self._own(_shaped(vjp(cotangent.copy()), (len(theta), self._inputs(theta)), self._product))
            except ModelError:
                raise
            except Exception as error:
                self._note(error)
                if len(theta) == 1:
                    return np.full(theta.shape, np.nan)
            return self._linearize_rows(theta)[1](cotangent)

        return y, guarded

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Observations (batch, m) and Jacobian (batch, m, p), for a model that has it; NaN in failed rows."""
        slopes = f"the jacobian of {self.name!r}", (self.observations, self._inputs(theta))
        y, matrix = self._guarded(
            lambda rows: self.model.jacobian(self.given(theta[rows])), slice(0, len(theta)), (self._observed, slopes)
        )
        return y, self._own(matrix)

    def rows(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Observations (batch, k) and Jacobian (batch, k, p) of chosen data, for a model that has `rows`.

        NaN in failed rows.
        """
        chosen = f"the chosen observations of forward model {self.name!r}", indices.shape[1:]
        slopes = f"the jacobian of {self.name!r}", (*indices.shape[1:], self._inputs(theta))
        y, matrix = self._guarded(
            lambda rows: self.model.rows(self.given(theta[rows]), indices[rows].copy()),
            slice(0, len(theta)),
            (chosen, slopes),
        )
        return y, self._own(matrix)

    def given(self, theta: Array) -> Array:
        """What the model gets: a copy of theta, with what is fixed."""
        if self._fixed is None:
            return theta.copy()
        full = np.tile(self._fixed, (len(theta), 1))
        full[:, self._free] = theta
        return full

    def _inputs(self, theta: Array) -> int:
        return theta.shape[1] if self._fixed is None else len(self._fixed)

    def _own(self, derivatives: Array) -> Array:
        """Derivatives with respect to what is not fixed."""
        return derivatives if self._fixed is None else np.ascontiguousarray(derivatives[..., self._free])

    def _guarded(
        self, solve: Callable[[slice], Sequence[object]], rows: slice, wanted: Sequence[tuple[str, tuple[int, ...]]]
    ) -> list[Array]:
        """What ``solve`` gives for these rows: arrays by name and shape of a row. Row by row if that raises."""
        batch = rows.stop - rows.start
        try:
            found = zip(solve(rows), wanted, strict=True)
            return [_shaped(value, (batch, *shape), name) for value, (name, shape) in found]
        except ModelError:
            raise
        except Exception as error:
            self._note(error)
            if batch == 1:
                return [np.full((1, *shape), np.nan) for _, shape in wanted]
        parts = [self._guarded(solve, slice(i, i + 1), wanted) for i in range(rows.start, rows.stop)]
        return [np.concatenate(part) for part in zip(*parts, strict=True)]

    def _linearize_rows(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        if len(theta) == 1:
            return np.full((1, self.observations), np.nan), lambda cotangent: np.full(theta.shape, np.nan)
        rows = [slice(i, i + 1) for i in range(len(theta))]

        def vjp(cotangent: Array) -> Array:
            # linearized again: the product of one row may rest on what the next row has replaced in the model
            return np.concatenate([self.linearize(theta[row])[1](cotangent[row]) for row in rows])

        return np.concatenate([self.linearize(theta[row])[0] for row in rows]), vjp

    def _note(self, error: Exception) -> None:
        self._message = f"{type(error).__name__}: {error}"


def _shaped(value: object, shape: tuple[int, ...], what: str) -> Array:
    if type(value) is np.ndarray and value.dtype is FLOAT and value.shape == shape:  # as it mostly is, at each step
        return value.copy()
    array = own_array(value, what)
    if array.shape != shape:
        said, observed = "", what.startswith("observations")
        if observed and array.shape[:-1] == shape[:1] and array.shape[-1] < shape[1]:
            said = "; a model of a part of the data says of which by data_indices"
        elif observed and array.ndim > 2 and array.shape[0] == shape[0] and array.size == math.prod(shape):
            said = ": flatten what belongs to each row, y.reshape(len(theta), -1)"
        raise WrongShapeError(f"{what} must have shape {shape}, got {array.shape}{said}")
    return array


def real_array(value: object, what: str) -> Array:
    """The value as an array of floats; WrongShapeError, naming ``what`` it is, where it cannot be one."""
    if type(value) is np.ndarray and value.dtype is FLOAT:
        return value
    try:
        return arguments.numbers(what, value)
    except ValueError as error:
        raise WrongShapeError(str(error)) from None


def own_array(value: object, what: str) -> Array:
    """The same as an array that nobody else has: whoever made the value may use its memory again."""
    if type(value) is np.ndarray and value.dtype is FLOAT:
        return value.copy()
    return np.array(real_array(value, what))
