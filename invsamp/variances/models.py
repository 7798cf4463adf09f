r"""Models of the variance of noisy energies and gradients, as a function of the position.

A model is a frozen dataclass of settings; what it learns is a state that goes in and comes out:

    state = model.init(shape)
    state = model.update(state, position, sample_variance, degrees_of_freedom)
    state = model.finish(state)
    variance = model.predict(state, position)

``shape`` is that of one variance: ``()`` for an energy or for isotropic gradient noise, ``(d,)`` for
independent gradient entries, ``(d, d)`` for a full covariance. Predictions are never negative, and full
covariances are positive semi-definite, by construction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from invsamp import arguments
from invsamp.arguments import integer, optional, real
from invsamp.stored import stored, stored_dataclass
from invsamp.variances.kernel_ridge_model import KernelRidge
from invsamp.variances.sample_variances import Array, Mask, Shape, checked_samples, diagonal, finite_rows


@runtime_checkable
class VarianceModel(Protocol):
    """Learns and predicts variances; see the head of this module."""

    def init(self, shape: Shape) -> Any:
        """State before any data, for variances of this shape."""

    def update(self, state: Any, position: Array, sample_variance: Array, degrees_of_freedom: int) -> Any:
        """State after sample variances (n, *shape) at positions (n, d); rows that are not finite are left out.

        ``degrees_of_freedom`` is the number of probes behind each sample variance, less one.
        """

    def predict(self, state: Any, position: Array) -> Array:
        """Variances (n, *shape) at positions (n, d); RuntimeError before any data."""

    def wants_samples(self, state: Any, position: Array) -> Mask:
        """At which of the positions (n, d) a sample variance would add information: probes cost solves."""

    def finish(self, state: Any) -> Any:
        """The state after the last update, made ready for many predictions."""


@stored
class KnownState(NamedTuple):
    """Nothing but the shape of one variance."""

    shape: Shape


@stored_dataclass
class Known:
    """Variance that is given, not learned. Made by `known`."""

    value: float | tuple[float, ...] | tuple[tuple[float, ...], ...] | Callable[[Array], Array] | None = None

    @property
    def stated(self) -> bool:
        """Whether the estimator's own statement is what counts, so that there is nothing to predict."""
        return self.value is None

    def init(self, shape: Shape) -> KnownState:
        """State for variances of this shape; ValueError where the value has no such form."""
        if self.value is not None and not callable(self.value):
            _expanded(np.asarray(self.value)[None], shape)
        return KnownState(tuple(shape))

    def update(self, state: KnownState, position: Array, sample_variance: Array, degrees_of_freedom: int) -> KnownState:
        """The same state: there is nothing to learn."""
        return state

    def predict(self, state: KnownState, position: Array) -> Array:
        """The given variance, shape (n, *shape).

        Raises
        ------
        RuntimeError
            If the estimator was to state its variance.
        ValueError
            If a callable returns another number of rows, a shape that does not fit, or a negative variance.
        """
        if self.value is None:
            raise RuntimeError("known() has no value: the estimator states its variance, nothing can be predicted")
        if not callable(self.value):
            value = _expanded(np.asarray(self.value)[None], state.shape)
            return np.repeat(value, len(position), axis=0)
        value = np.asarray(self.value(position), dtype=float)
        if value.shape[:1] != (len(position),):
            raise ValueError(f"value must return one variance per position ({len(position)}), got shape {value.shape}")
        if not diagonal(value).min(initial=0.0) >= 0.0:
            raise ValueError(f"value must return variances >= 0, got {diagonal(value).min()}")
        return _expanded(value, state.shape)

    def wants_samples(self, state: KnownState, position: Array) -> Mask:
        """Nowhere."""
        return np.zeros(len(position), dtype=bool)

    def finish(self, state: KnownState) -> KnownState:
        """The same state."""
        return state


@stored
class RunningAverageState(NamedTuple):
    """Average so far, shape (*shape,), and the degrees of freedom that went into it."""

    mean: Array
    weight: float


@stored_dataclass
class RunningAverage:
    """One variance for all positions, averaged over all that was seen. Made by `running_average`."""

    smoothing: float | None = None

    def init(self, shape: Shape) -> RunningAverageState:
        """State before any data."""
        return RunningAverageState(np.zeros(shape), 0.0)

    def update(
        self, state: RunningAverageState, position: Array, sample_variance: Array, degrees_of_freedom: int
    ) -> RunningAverageState:
        """Average in the rows of one call. Constant smoothing counts a call, 1/k counts rows."""
        samples = checked_samples(sample_variance, state.mean.shape, degrees_of_freedom)
        if not np.isfinite(samples.sum()):
            samples = samples[finite_rows(samples)]
        if not len(samples):
            return state
        added = float(len(samples) * degrees_of_freedom)
        weight = state.weight + added
        # the first data replace the empty average whatever the smoothing
        share = added / weight if self.smoothing is None or state.weight == 0.0 else self.smoothing
        # convex combinations keep covariances positive semi-definite
        return RunningAverageState((1.0 - share) * state.mean + share * samples.mean(axis=0), weight)

    def predict(self, state: RunningAverageState, position: Array) -> Array:
        """The average, repeated to (n, *shape)."""
        if state.weight == 0.0:
            raise RuntimeError("running_average has no sample variance yet: call update before predict")
        return np.repeat(state.mean[None], len(position), axis=0)

    def wants_samples(self, state: RunningAverageState, position: Array) -> Mask:
        """Everywhere."""
        return np.ones(len(position), dtype=bool)

    def finish(self, state: RunningAverageState) -> RunningAverageState:
        """The same state."""
        return state


def known(value: npt.ArrayLike | Callable[[Array], Array] | None = None) -> Known:
    """Variance that need not be learned.

    Parameters
    ----------
    value : float, array_like, callable or None
        A variance; variances of shape (d,); a covariance of shape (d, d); or a function from positions (n, d)
        to one of these per position, shapes (n,), (n, d) or (n, d, d). A scalar stands for isotropic noise, a
        vector for independent entries, where a larger form is wanted. None: what the estimator itself states.

    Raises
    ------
    ValueError
        If a variance is negative or not finite, or a covariance is not symmetric positive semi-definite.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.variances.known(0.25)
    Known(value=0.25)
    """
    if value is None or callable(value):
        return Known(value)
    array = arguments.array("value", value)
    if array.ndim > 2 or (array.ndim == 2 and array.shape[0] != array.shape[1]):
        raise ValueError(f"value must have shape (), (d,) or (d, d), got {array.shape}")
    if not diagonal(array[None]).min(initial=0.0) >= 0.0:
        raise ValueError(f"value must hold finite variances >= 0, got {array.tolist()}")
    if array.ndim == 2:
        scale = np.abs(array).max(initial=0.0)
        if not np.allclose(array, array.T, rtol=0.0, atol=1e-12 * scale):
            raise ValueError(f"value must be a symmetric covariance, got {array.tolist()}")
        if np.linalg.eigvalsh(array).min(initial=0.0) < -1e-10 * scale:
            raise ValueError(f"value must be positive semi-definite, got {array.tolist()}")
    return Known(_nested_tuple(array.tolist()))


def running_average(smoothing: float | None = None) -> RunningAverage:
    """One variance for all positions, from a running average of sample variances.

    Parameters
    ----------
    smoothing : float in (0, 1], optional
        Share of each new call in an exponential average. Default: every sample variance counts alike, by its
        degrees of freedom, so the k-th has share 1/k.

    Raises
    ------
    ValueError
        If ``smoothing`` is not in (0, 1].

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.variances.running_average()
    RunningAverage(smoothing=None)
    """
    return RunningAverage(optional(real, "smoothing", smoothing, above=0, most=1))


def kernel_ridge(
    states: int = 100, length_scale: float | None = None, ridge: float | None = None, *, max_states: int | None = None
) -> KernelRidge:
    r"""Variance as a function of the position, by kernel ridge regression on a pilot.

    With :math:`s^2_i` a sample variance of :math:`\nu` degrees of freedom at position i, the regression is on

    .. math:: \log s^2_i - \psi(\nu / 2) + \log(\nu / 2),

    whose mean is the log variance where the noise is Gaussian. The kernel is Gaussian in positions
    standardized by the mean and sd of the pilot. Far from the pilot the log returns to the pilot's mean, and
    everywhere it is held within the range of the pilot's targets. A full
    covariance is :math:`D^{1/2} R D^{1/2}` with D from the regression of the diagonal and one correlation
    matrix R.

    The pilot must visit every mode: a variance that it has not seen is extrapolated. So it does not end with the first
    ``states``. In warm-up the regression's own standard error is computed at every later position: that of the Gaussian
    process of which it is the mean, with a variance of at least 1 for the log. A position where this error exceeds that
    of ten states probed at the position itself is probed, too. The regression is fitted anew, settings and all,
    whenever the pilot has grown by a quarter. After warm-up it does not change. Positions where the error exceeds that
    of one such state count as extrapolated (``run.report["uncovered_variance"]``). The settings are chosen on 200 of
    the pilot's states at most, and the kernel stands at 200 of them at most.

    All chains of a run share one pilot, and so do rungs of one fidelity with the same estimator and settings. More
    states improve the fit, and those of the hot rung cover modes that the cold one has not visited yet. Another
    fidelity never uses it. As the chains share the fit, they share its error, which R-hat cannot see: that shows
    between runs of several seeds.

    Parameters
    ----------
    states : int, >= 3
        Number of states, the first ones that are seen, from which the first fit is made.
    length_scale : float, > 0, optional
        Length scale of the kernel, in standardized units.
    ridge : float, > 0, optional
        Penalty, in units of the kernel's variance 1.
        A value of these two that is not given is chosen on a grid by the closed-form leave-one-out error. The length
        scale is the longest one that is not worse than the best one by three standard errors. The ridge is that of the
        least error for it.
    max_states : int, >= states, optional
        Number of states at which the pilot ends, covering or not. Default: five times ``states``.

    Raises
    ------
    ValueError
        If a setting is out of its range.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.variances.kernel_ridge(states=50)
    KernelRidge(states=50, length_scale=None, ridge=None, max_states=250)
    """
    first = integer("states", states, least=3)
    return KernelRidge(
        first,
        optional(real, "length_scale", length_scale, above=0),
        optional(real, "ridge", ridge, above=0),
        5 * first if max_states is None else integer("max_states", max_states, least=first),
    )


def _expanded(value: Array, shape: Shape) -> Array:
    """Variances (n,), (n, d) or (n, d, d) in the form (n, *shape), which may be larger but not smaller."""
    n, form = len(value), value.shape[1:]
    if form == shape:
        return value
    if form == () and len(shape) == 1:
        return np.repeat(value[:, None], shape[0], axis=1)
    if len(shape) == 2 and form in ((), shape[:1]):
        full = np.zeros((n, *shape))
        diagonal = np.arange(shape[0])
        full[:, diagonal, diagonal] = value.reshape(n, -1)
        return full
    raise ValueError(f"value of shape {form} cannot stand for a variance of shape {shape}")


def _nested_tuple(value: Any) -> Any:
    return tuple(_nested_tuple(entry) for entry in value) if isinstance(value, list) else value
