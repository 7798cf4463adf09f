"""Surrogates of what a coarse model lacks: polynomials and Gaussian processes of the unknowns, fitted to pairs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, instance, integer, needed, optional
from invsamp.errors import ModelError
from invsamp.posing.forward_models.adapters import parameter_names
from invsamp.posing.forward_models.guarded_model import real_array
from invsamp.posing.forward_models.model_around import ModelAround
from invsamp.protocols import Array, ForwardModel, VectorJacobianProduct
from invsamp.surrogates.polynomials import Polynomial

#: Fewer pairs give no information.
FEWEST = 10


class Fitted(Protocol):
    """A function of theta (n, p) that was fitted."""

    def __call__(self, theta: Array) -> Array:
        """Values (n, m)."""

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        """Values, and the product of cotangents (n, m) with the Jacobians there."""


class Method(Protocol):
    """How such a function is fitted: a frozen dataclass of settings."""

    def fitted(self, theta: Array, values: Array) -> Fitted:
        """Of values (n, m) at theta (n, p)."""


@dataclass(frozen=True)
class Surrogate(ModelAround):
    r"""A coarse model, or nothing, plus what was fitted to the difference.

    .. math:: y(\theta) = y_0(\theta) + r(\theta)
    """

    coarse: ForwardModel | None
    found: Fitted | None = field(default=None, repr=False, compare=False, kw_only=True)

    @property
    def inner(self) -> ForwardModel | None:
        """The coarse model."""
        return self.coarse

    @property
    def data_indices(self) -> npt.NDArray[np.intp] | None:
        """Of the data that the coarse model predicts; None: of all."""
        return getattr(self.coarse, "data_indices", None)

    def __call__(self, theta: Array) -> Array:
        """Observations (n, m)."""
        base = 0.0 if self.coarse is None else real_array(self.coarse(theta), "the result of the coarse model")
        return np.asarray(base if self._found is None else base + self._found(theta))

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        """Observations and the vector-Jacobian product."""
        found = self._found
        below = None if self.coarse is None else self.coarse.linearize(theta)
        if found is None:
            assert below is not None  # `_found` has seen to it
            return below
        more, pulled = found.linearize(theta)
        if below is None:
            return more, pulled
        y, product = below
        return np.asarray(y) + more, lambda cotangent: product(cotangent) + pulled(cotangent)

    def fit(self, theta: Array, observations: Array) -> Self:
        """The model fitted to observations (n, m) of the fine one at theta (n, p); this one is left as it is.

        Raises
        ------
        ValueError
            If there are fewer than ten pairs, or they do not fit together.
        """
        x = array("theta", theta, ("n", "p"))
        y = array("observations", observations, (len(x), "m"))
        if len(x) < FEWEST:
            raise ValueError(f"theta must hold at least {FEWEST} states, got {len(x)}")
        if self.data_indices is not None:
            y = y[:, self.data_indices]
        if self.coarse is not None:
            y = y - real_array(self.coarse(x), "the result of the coarse model")
        return self.fitted(x, y)

    def fitted(self, theta: Array, missing: Array) -> Self:
        """The model fitted to what is missing (n, m) at theta (n, p)."""
        raise NotImplementedError

    @property
    def _found(self) -> Fitted | None:
        if self.found is None and self.coarse is None:
            raise ModelError("the surrogate has not been fitted: call model.fit(theta, observations) first")
        return self.found


@dataclass(frozen=True)
class ResidualModel(Surrogate):
    """A surrogate by any method. Made by `polynomial_model` and the like."""

    method: Method
    parameters: tuple[str, ...] | None = None

    def fitted(self, theta: Array, missing: Array) -> ResidualModel:
        """The model fitted to what is missing (n, m) at theta (n, p)."""
        return replace(self, found=self.method.fitted(theta, missing))


def polynomial_model(
    coarse: ForwardModel | None = None, degree: int = 2, *, parameters: Iterable[str] | None = None
) -> ResidualModel:
    r"""A polynomial of the unknowns as a forward model, or as what a coarse model lacks of the fine one.

    All products of at most ``degree`` standardized unknowns, by a ridge regression whose ridge is that of least
    generalized cross-validation. It has ``fit(theta, observations)``, so that as a coarse fidelity it is fitted to the
    pairs of solves that `invsamp.correct` or a run gathers, and judged on pairs that it was not fitted to. What it does
    not know costs acceptance in an exchange, never the target. The affine map of `correct` is what it has to beat.

    Parameters
    ----------
    coarse : ForwardModel, optional
        Which is corrected. Without one the polynomial is fitted by hand before it is used.
    degree : int, from 1 to 4
        With 20 unknowns there are 231 products of degree 2, and 1,771 of degree 3.
    parameters : names, optional
        As in `invsamp.with_jacobian`; those of the coarse model by default.

    Raises
    ------
    ValueError
        If an argument is wrong.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> model = iv.surrogates.polynomial_model(degree=2, parameters=["a"])
    >>> theta = np.linspace(-1.0, 1.0, 20)[:, None]
    >>> model = model.fit(theta, theta**2)
    >>> model(np.array([[0.5]])).round(2)
    array([[0.25]])
    """
    return _model(coarse, Polynomial(integer("degree", degree, least=1, most=4)), parameters)


def gaussian_process_model(
    coarse: ForwardModel | None = None, *, parameters: Iterable[str] | None = None
) -> ResidualModel:
    r"""Gaussian processes as a forward model, or as what a coarse model lacks of the fine one: their mean.

    A squared exponential covariance with a length for each unknown, and noise, of greatest marginal likelihood, common
    to all outputs: by scikit-learn, ``pip install "invsamp[gp]"``. As of `polynomial_model` otherwise.

    Parameters
    ----------
    coarse : ForwardModel, optional
        Which is corrected. Without one it is fitted by hand before it is used.
    parameters : names, optional
        As in `invsamp.with_jacobian`; those of the coarse model by default.

    Raises
    ------
    ValueError
        If an argument is wrong.
    ImportError
        When it is fitted, if scikit-learn is missing.

    References
    ----------
    Rasmussen and Williams (2006), "Gaussian Processes for Machine Learning", eq. (2.25), (5.8).

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> import invsamp as iv
    >>> if find_spec("sklearn"):
    ...     model = iv.surrogates.gaussian_process_model()
    ...
    """
    return _model(coarse, GaussianProcess(), parameters)


@dataclass(frozen=True)
class GaussianProcess:
    """Squared exponential, by scikit-learn."""

    def fitted(self, theta: Array, values: Array) -> Fitted:
        """Of greatest marginal likelihood."""
        needed("gaussian_process_model needs", "gp", "sklearn")
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

        center, spread = theta.mean(axis=0), theta.std(axis=0)
        spread = np.where(spread > 0.0, spread, 1.0)
        mean, scale = values.mean(axis=0), float(np.sqrt(np.square(values - values.mean(axis=0)).mean())) or 1.0
        x = (theta - center) / spread
        covariance = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(np.full(x.shape[1], 3.0), (0.1, 1e2)) + WhiteKernel(
            1e-4, (1e-6, 1.0)
        )
        regressor = GaussianProcessRegressor(covariance)
        with warnings.catch_warnings():  # a length at its bound says that an unknown does not matter
            warnings.simplefilter("ignore", ConvergenceWarning)
            regressor.fit(x, (values - mean) / scale)
        lengths = np.broadcast_to(regressor.kernel_.k1.k2.length_scale, x.shape[1:]).astype(float)
        weights = regressor.alpha_.reshape(len(x), -1) * (scale * float(regressor.kernel_.k1.k1.constant_value))
        return _Process(center, spread * lengths, x / lengths, weights, mean)


@dataclass(frozen=True, eq=False)
class _Process:
    center: Array
    scale: Array  # (p,)
    states: Array  # (n, p), in units of it
    weights: Array  # (n, m)
    mean: Array

    def __call__(self, theta: Array) -> Array:
        return np.asarray(np.einsum("bn,nm->bm", self._covariances(theta)[0], self.weights) + self.mean)

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        at = theta.copy()
        return self(theta), lambda cotangent: self._pulled(at, cotangent)

    def _pulled(self, theta: Array, cotangent: Array) -> Array:
        near, away = self._covariances(theta)
        slopes = near * np.einsum("bm,nm->bn", cotangent, self.weights)
        return np.asarray(-np.einsum("bn,bnp->bp", slopes, away) / self.scale)

    def _covariances(self, theta: Array) -> tuple[Array, Array]:
        away = ((theta - self.center) / self.scale)[:, None, :] - self.states
        return np.exp(-0.5 * np.square(away).sum(axis=2)), away


def _model(coarse: ForwardModel | None, method: Method, parameters: Iterable[str] | None) -> ResidualModel:
    return ResidualModel(coarse, method, known_parameters(coarse, parameters))


def known_parameters(coarse: ForwardModel | None, parameters: Iterable[str] | None) -> tuple[str, ...] | None:
    """Names of what a surrogate depends on: those given, or the coarse model's."""
    optional(instance, "coarse", coarse, ForwardModel, "a forward model, with linearize, or None")
    names = parameter_names(parameters)
    return getattr(coarse, "parameters", None) if names is None else names
