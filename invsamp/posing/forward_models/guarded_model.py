"""Forward models at work: what a failing solve does, and what a mistake in the model does."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp import arguments
from invsamp.errors import ModelError, WrongShapeError
from invsamp.protocols import (
    AnticipatingModel,
    Array,
    Cotangent,
    FunctionCalls,
    JacobianProduct,
    RowByRow,
    VectorJacobianProduct,
    function_calls,
    no_derivatives,
)
from invsamp.simulations.rows import not_finite

FLOAT = np.dtype(float)
#: How a model comes by derivatives, or does without.
WAYS = (
    "Take them by differences, iv.finite_differences(function), give its Jacobian, "
    "iv.with_jacobian(function, jacobian), or write it in torch, iv.from_torch(function). Or take a sampler "
    "without gradients: iv.samplers.differential_evolution(), iv.samplers.stretch() or iv.pcn()"
)
#: What to do with functions that do not take a batch.
ONE_THETA = (
    "a function of one parameter vector is iv.scalar_function(function), a function f(a, b) "
    "iv.scalar_function(lambda theta: f(*theta))"
)


class GuardedModel:
    """A model of which one failing row does not take the batch down.

    A call that raises is repeated row by row, and the rows that raise again become NaN. A model that goes row by row
    anyway is called so from the start, and no row is solved twice. A `ModelError` is raised at
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
    arranged : tuple of int, optional
        Shape of the data that it predicts, for messages.

    Attributes
    ----------
    no_derivatives : str or None
        Why it cannot be linearized; None if it can.
    error : Exception or None
        What it raised, if it has raised whenever it was called.
    """

    def __init__(
        self,
        model: Any,
        observations: int,
        name: str,
        fixed: Array | None = None,
        *,
        arranged: tuple[int, ...] | None = None,
    ) -> None:
        check_model(name, model)
        self.no_derivatives = no_derivatives(model)
        if not callable(getattr(model, "linearize", None)):
            self.no_derivatives = f"forward[{name!r}] is a function without derivatives. {WAYS}"
        self.error: Exception | None = None
        self._worked: set[str] = set()  # what of it has returned without raising
        self.model = model
        self.observations = observations
        self.name = name
        self._arranged = arranged
        self._observed = f"observations of forward model {name!r}", (observations,)
        self._product = f"the vector-Jacobian product of {name!r}"
        self._message: str | None = None
        self._raised = False  # since the last look
        self._fixed, self._free = fixed, None if fixed is None else np.flatnonzero(np.isnan(fixed))
        self.has_jacobian = callable(getattr(model, "jacobian", None))
        self.has_rows = callable(getattr(model, "rows", None))
        self._anticipates = isinstance(model, AnticipatingModel)
        self._row_by_row = isinstance(model, RowByRow) and model.row_by_row
        alone = getattr(getattr(model, "comm", None), "size", 1) == 1
        #: Whether one process can ask it for products of its Jacobian; of a mesh over several ranks all would have to.
        self.has_tangent = alone and (callable(getattr(model, "tangent", None)) or self.has_jacobian)

    def __getstate__(self) -> dict[str, object]:
        # an exception holds the frames that it came through, which cannot be pickled
        return vars(self) | {"error": None}

    @property
    def message(self) -> str | None:
        """The exception of the last failure, or the model's own ``message``, or which outputs were not finite."""
        return self._message if self._message is not None else getattr(self.model, "message", None)

    def look(self, y: Array) -> None:
        """Keep the message of a failure in which observations (batch, m) came back; an older one does not stay.

        Called where the density of a row is not finite.
        """
        raised, self._raised = self._raised, False
        if raised:
            return
        failed = np.flatnonzero(~np.isfinite(y).all(axis=1))
        if not len(failed):
            self._message = "the observations are finite, but their likelihood is not"
        else:
            self._message = getattr(self.model, "message", None) or not_finite(y[failed[-1]])

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

        Where the cotangent is known beforehand, with what gives it; see `invsamp.protocols.AnticipatingModel`.
        """
        if self.no_derivatives is not None:
            raise ModelError(self.no_derivatives)
        try:
            given, known = self.given(theta), towards if self._anticipates else None
            y, vjp = self.model.linearize(given) if known is None else self.model.linearize_towards(given, *known)
            y = self._shaped(y, (len(theta), self.observations), self._observed[0])
        except ModelError:
            raise
        except Exception as error:
            self._note(error)
            return self._linearize_rows(theta)
        self._returned("solve")

        def guarded(cotangent: Array) -> Array:
            try:
                product = vjp(cotangent.copy())
                slope = self._own(self._shaped(product, (len(theta), self._inputs(theta)), self._product))
                self._returned("product")
                return slope
            except ModelError:
                raise
            except Exception as error:
                self._note(error, "product")
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

    def tangent(self, theta: Array) -> tuple[Array, JacobianProduct, JacobianProduct]:
        """Observations (1, m) at one theta (1, p), and products with k vectors; NaN where the solve failed.

        For a model that has tangents, or a Jacobian.
        """
        try:
            y, jvp, vjp = self._tangent(self.given(theta))
            y = self._shaped(y, (1, self.observations), self._observed[0])
        except ModelError:
            raise
        except Exception as error:
            self._note(error)
            y = np.full((1, self.observations), np.nan)
            return (
                y,
                lambda v: np.full((1, v.shape[1], y.size), np.nan),
                lambda c: np.full((1, c.shape[1], theta.shape[1]), np.nan),
            )
        self._returned("solve")

        def along(directions: Array) -> Array:
            if self._fixed is not None:
                spread = np.zeros((*directions.shape[:2], len(self._fixed)))
                spread[..., self._free] = directions
                directions = spread
            return self._shaped(jvp(directions), (*directions.shape[:2], self.observations), self._product)

        def back(cotangents: Array) -> Array:
            wanted = (*cotangents.shape[:2], self._inputs(theta))
            return self._own(self._shaped(vjp(cotangents), wanted, self._product))

        return y, along, back

    def _tangent(self, theta: Array) -> tuple[Array, JacobianProduct, JacobianProduct]:
        if callable(getattr(self.model, "tangent", None)):
            return self.model.tangent(theta)  # type: ignore[no-any-return]
        y, jacobian = self.model.jacobian(theta)
        return y, lambda v: v @ jacobian.transpose(0, 2, 1), lambda c: c @ jacobian

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
        """Input of the model: a copy of theta, with the fixed parameters."""
        if self._fixed is None:
            return theta.copy()
        full = np.tile(self._fixed, (len(theta), 1))
        full[:, self._free] = theta
        return full

    def inputs(self, columns: npt.NDArray[np.intp]) -> tuple[npt.NDArray[np.intp], Array]:
        """For each input of the model the one of ``columns`` that is it, or -1 and the number that it is fixed to."""
        if self._fixed is None:
            return columns, np.zeros(len(columns))
        places = np.full(len(self._fixed), -1)
        places[self._free] = columns
        return places, np.where(places < 0, self._fixed, 0.0)

    def _inputs(self, theta: Array) -> int:
        return theta.shape[1] if self._fixed is None else len(self._fixed)

    def _own(self, derivatives: Array) -> Array:
        """Derivatives with respect to what is not fixed."""
        return derivatives if self._fixed is None else np.ascontiguousarray(derivatives[..., self._free])

    def _guarded(
        self, solve: Callable[[slice], Sequence[object]], rows: slice, wanted: Sequence[tuple[str, tuple[int, ...]]]
    ) -> list[Array]:
        """Results of ``solve`` for these rows: arrays by name and shape of a row. Row by row if it raises."""
        batch = rows.stop - rows.start
        if batch > 1 and self._row_by_row:
            return self._each(solve, rows, wanted)
        try:
            found = zip(solve(rows), wanted, strict=True)
            parts = [self._shaped(value, (batch, *shape), name) for value, (name, shape) in found]
            self._returned("solve")
            return parts
        except ModelError:
            raise
        except Exception as error:
            self._note(error)
            if batch == 1:
                return [np.full((1, *shape), np.nan) for _, shape in wanted]
        return self._each(solve, rows, wanted)

    def _each(
        self, solve: Callable[[slice], Sequence[object]], rows: slice, wanted: Sequence[tuple[str, tuple[int, ...]]]
    ) -> list[Array]:
        by_row = [self._guarded(solve, slice(i, i + 1), wanted) for i in range(rows.start, rows.stop)]
        return [np.concatenate(part) for part in zip(*by_row, strict=True)]

    def _linearize_rows(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        if len(theta) == 1:
            return np.full((1, self.observations), np.nan), lambda cotangent: np.full(theta.shape, np.nan)
        rows = [slice(i, i + 1) for i in range(len(theta))]

        def vjp(cotangent: Array) -> Array:
            # linearized again: the product of one row may rest on what the next row has replaced in the model
            return np.concatenate([self.linearize(theta[row])[1](cotangent[row]) for row in rows])

        return np.concatenate([self.linearize(theta[row])[0] for row in rows]), vjp

    def _note(self, error: Exception, stage: str = "solve") -> None:
        self._message, self._raised = f"{type(error).__name__}: {error}", True
        if stage not in self._worked:
            self.error = error

    def _returned(self, stage: str) -> None:
        if stage not in self._worked:
            self._worked.add(stage)
            self.error = None  # with the arrays that its frames hold

    def _shaped(self, value: object, shape: tuple[int, ...], what: str) -> Array:
        """An array of its own, of this shape; `WrongShapeError`, naming ``what`` it is, where it has another."""
        if type(value) is np.ndarray and value.dtype is FLOAT and value.shape == shape:  # as it mostly is, at each step
            return value.copy()
        array = own_array(value, what)
        if array.shape != shape:
            said = self._hint(array.shape, shape) if what.startswith("observations") else ""
            raise WrongShapeError(f"{what} must have shape {shape}, got {array.shape}{said}")
        return array

    def _hint(self, found: tuple[int, ...], wanted: tuple[int, ...]) -> str:
        """Hint at the likely cause of observations of another shape."""
        if found[:1] != wanted[:1]:
            return f". A model is given theta of shape (n, d), and returns a row for each of n: {ONE_THETA}"
        if len(found) == 2 and found[1] < wanted[1]:
            return "; a model of a part of the data gives its indices as data_indices"
        if len(found) < 3 or math.prod(found) != math.prod(wanted):
            return ""
        if self._arranged is not None and not same_order(found[1:], self._arranged):
            return f". The data have shape {self._arranged}: transpose the data, or the outputs, and flatten these"
        return ": flatten what belongs to each row, y.reshape(len(theta), -1)"


def check_model(name: str, model: object) -> None:
    """`ValueError` unless a fidelity's model is a function of NumPy arrays, with derivatives or without."""
    if is_torch_module(model):
        raise ValueError(
            f"forward[{name!r}] must be a function of NumPy arrays, got the torch.nn.Module {type(model).__name__}: "
            "wrap it by iv.from_torch(module.double()) if theta is its input; where its weights are the unknowns, the "
            "problem is invsamp.torch.module_posterior(module, data, likelihood)"
        )
    if not callable(model) or isinstance(model, type):
        raise ValueError(f"forward[{name!r}] must be a function or a forward model, got {model!r}")


def is_torch_module(value: object) -> bool:
    """Whether this is a network of torch, which is not imported for the question."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def same_order(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether arrays of two shapes, of as many entries, hold them in the same order: one only splits the other's axes.

    (6, 2), (3, 2, 2) and (12,) are in one order, (2, 3) and (3, 2) are not.
    """
    strides = [{math.prod(shape[k:]) for k in range(1, len(shape))} - {1, math.prod(shape)} for shape in (one, other)]
    return strides[0] <= strides[1] or strides[1] <= strides[0]


def real_array(value: object, what: str) -> Array:
    """The value as an array of floats; WrongShapeError, naming ``what`` it is, where it cannot be one."""
    if type(value) is np.ndarray and value.dtype is FLOAT:
        return value
    try:
        return arguments.numbers(what, value)
    except ValueError as error:
        raise WrongShapeError(str(error)) from None


def own_array(value: object, what: str) -> Array:
    """The same as an array that no one else has: whoever made the value may use its memory again."""
    if type(value) is np.ndarray and value.dtype is FLOAT:
        return value.copy()
    return np.array(real_array(value, what))
