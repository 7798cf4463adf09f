"""Which of many candidate sensors to use: by the information that they are expected to give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, instance, integer, one_of, optional
from invsamp.identifiability.fisher import point_of
from invsamp.modes import Modes
from invsamp.posing.noise.known_covariance import gaussian_covariance
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array

#: Step in positions of the differences by which theta's derivatives are found.
_STEP = 1e-4


@dataclass(frozen=True, eq=False, repr=False)
class SensorDesign:
    """Candidates in the order in which they were chosen; made by `choose_sensors`.

    Attributes
    ----------
    criterion : {"D", "A"}
    chosen : ndarray of int, shape (count,)
        Numbers of the data, in C order, in the order of choice.
    information : ndarray, shape (count + 1,)
        Expected information gain, in nats, of the first 0, 1, 2, ... of them.
    reduction : ndarray, shape (count + 1,)
        By how much the first 0, 1, 2, ... of them reduce the sum of the variances of the parameters that count.
    predicted : ndarray, shape (m, m)
        Covariance of the predictions of all candidates over the prior, in units of the noise's sds.
    """

    criterion: str
    chosen: npt.NDArray[np.intp]
    information: Array
    reduction: Array
    predicted: Array

    def __repr__(self) -> str:
        return (
            f"SensorDesign({self.criterion}-optimal, {len(self.chosen)} of {len(self.predicted)} candidates: "
            f"{self.information[-1]:.3g} nats)"
        )

    def information_of(self, sensors: Sequence[int] | npt.NDArray[np.intp]) -> Array:
        """Expected information, in nats, of the first 0, 1, 2, ... of other sensors, by their numbers, shape (k + 1,).

        Raises
        ------
        ValueError
            If a number is none of the candidates', or occurs twice.
        """
        most = len(self.predicted) - 1
        chosen = array("sensors", sensors, ("k",), least=0, most=most, whole=True, empty=True).astype(np.intp)
        if len(set(chosen.tolist())) < len(chosen):
            raise ValueError(f"sensors must be distinct, got {chosen.tolist()}")
        # of the Cholesky factor of I + C, the squared diagonal holds the ratios of the determinants
        factor = np.linalg.cholesky(np.eye(len(chosen)) + self.predicted[np.ix_(chosen, chosen)])
        return np.concatenate([[0.0], np.cumsum(np.log(np.diag(factor)))])


def choose_sensors(
    posterior: Posterior,
    count: int,
    *,
    criterion: Literal["D", "A"] = "D",
    at: Mapping[str, npt.ArrayLike] | Modes | None = None,
    parameters: str | None = None,
    seed: int | None = None,
) -> SensorDesign:
    r"""Greedy choice of sensors for a posterior whose data are those of all candidates, from its Laplace approximation.

    In positions the prior is close to :math:`N(0, I)` and the data have the Jacobian J at a point. Candidates S give an
    expected information of :math:`\frac12 \log\det(I + J_S \Gamma_S^{-1} J_S^T)`, and leave the covariance
    :math:`(I + J_S^T \Gamma_S^{-1} J_S)^{-1}`. D-optimal sensors maximize the one, A-optimal ones minimize the trace of
    the other, in the parameters themselves. Each next sensor is the best one beside those that are chosen. For D it
    reaches at least 63% of the best set's information.

    Parameters
    ----------
    posterior : Posterior
        With one datum for each candidate, and Gaussian noise of known sds, independent between sensors. The data count
        only for where the model is linearized.
    count : int, >= 1
        How many to choose.
    criterion : {"D", "A"}
    at : mapping from name to value, or Modes, optional
        Where the model is linearized; by default the mode, from `invsamp.maximize`. A linear model is the same
        everywhere.
    parameters : str, optional
        Name of the parameter whose variance counts for A; by default all.
    seed : int, optional
        Of `invsamp.maximize`.

    Returns
    -------
    SensorDesign

    Raises
    ------
    ValueError
        If there are fewer candidates than ``count``, the noise is another, the solve fails, or a name is unknown.

    Notes
    -----
    The cost is a solve with one adjoint for each candidate, then products of matrices of as many rows as there are
    candidates: nothing is dense in the number of parameters.

    References
    ----------
    Alexanderian (2021), Inverse Problems 37, 043001, sections 4 and 6.1; Krause, Singh and Guestrin (2008), Journal of
    Machine Learning Research 9, 235-284, for the bound on greedy choices.

    Examples
    --------
    >>> from invsamp.identifiability import choose_sensors
    >>> import numpy as np
    >>> import invsamp as iv
    >>> def jacobian(a):
    ...     return np.tile([[[1.0], [3.0], [2.0]]], (len(a), 1, 1))
    ...
    >>> model = iv.with_jacobian(lambda a: a * [1.0, 3.0, 2.0], jacobian)
    >>> posterior = iv.Posterior(iv.Prior(a=iv.Normal(0.0, 1.0)), model, np.zeros(3), iv.GaussianNoise(0.5))
    >>> choose_sensors(posterior, 2, seed=1).chosen
    array([1, 2])
    """
    instance("posterior", posterior, Posterior, "a Posterior")
    one_of("criterion", criterion, ("D", "A"))
    covariance = gaussian_covariance(posterior.noise, posterior.data.shape)
    if covariance.ndim == 2:
        raise ValueError("the posterior's noise must be independent between sensors, got a covariance matrix")
    integer("count", count, least=1, most=len(covariance))
    optional(one_of, "parameters", parameters, tuple(posterior.shapes))
    theta = point_of(posterior, at, seed)
    reference = posterior.reference()
    if reference.factor.ndim == 2:
        raise ValueError("the prior must be of independent numbers and of fields, got a MultivariateNormal")
    position = posterior.to_position(theta)
    # units in which the prior is N(0, I)
    rows = _jacobian(posterior, theta, position, covariance) * reference.factor
    columns = slice(None) if parameters is None else posterior.prior.slices[parameters]
    changes = _changes(posterior, position, reference.factor * rows)[:, columns]
    return _greedy(criterion, count, rows @ rows.T, changes, covariance)


def _jacobian(posterior: Posterior, theta: Array, position: Array, variances: Array) -> Array:
    """Derivatives (m, d) of the finest model's predictions in positions: one adjoint for each."""
    y = posterior.predict(theta)[0]
    if not np.isfinite(y).all():
        raise ValueError(f"at must be a point where the model can be solved, got {theta[0]}")
    # the gradient of a datum's term is that of its prediction, where the residual is the variance
    shifted = posterior.with_data(y - variances.reshape(y.shape))
    found = shifted.potential().terms(position, np.arange(y.size)[None]).gradients[0]
    if not found.any():
        raise ValueError("the model must have finite derivatives at the point of linearization")
    return found


def _changes(posterior: Posterior, position: Array, directions: Array) -> Array:
    """Derivatives of theta along directions (m, d) of positions, by differences: exact for a field of known range."""
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    steps = _STEP * directions / np.where(lengths > 0, lengths, 1.0)
    up, down = posterior.to_theta(position + steps), posterior.to_theta(position - steps)
    return (up - down) * (lengths / (2.0 * _STEP))


def _greedy(criterion: str, count: int, predicted: Array, changes: Array, variances: Array) -> SensorDesign:
    """From the covariance (m, m) of the predictions, and that of predictions and parameters (m, k), of the prior."""
    chosen: list[int] = []
    scales = np.sqrt(variances)
    standardized = predicted / scales[:, None] / scales
    information, reduction = [0.0], [0.0]
    left = np.ones(len(variances), dtype=bool)
    for _ in range(count):
        total = variances + np.maximum(np.diag(predicted), 0.0)
        gains = {"D": 0.5 * np.log(total / variances), "A": (changes**2).sum(axis=1) / total}
        best = int(np.argmax(np.where(left, gains[criterion], -np.inf)))
        chosen.append(best)
        left[best] = False
        information.append(information[-1] + float(gains["D"][best]))
        reduction.append(reduction[-1] + float(gains["A"][best]))
        # both conditioned on the datum
        weight = predicted[:, best] / total[best]
        changes = changes - np.outer(weight, changes[best])
        predicted = predicted - np.outer(weight, predicted[best])
    return SensorDesign(criterion, np.array(chosen), np.array(information), np.array(reduction), standardized)
