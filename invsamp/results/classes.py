r"""Class probabilities averaged over the posterior, their uncertainty, and scores of how right they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import entr, softmax

from invsamp.arguments import array, integer, text
from invsamp.protocols import Array
from invsamp.results.run import Run

#: Numbers of logits that are looked at together.
_AT_ONCE = 2**22


class ClassScores(NamedTuple):
    """How right predicted probabilities are, for labels that came about.

    ``accuracy``: share of the most probable classes that are right. ``nll``: mean of minus the log probability of the
    right class, in nats. ``brier``: mean over the data of the squared distance between probabilities and what came
    about, summed over the classes (tables that average over the classes have it over their number). ``ece``: expected
    calibration error of the most probable class.
    """

    accuracy: float
    nll: float
    brier: float
    ece: float


@dataclass(frozen=True)
class PredictedClasses:
    """Probabilities of classes, averaged over draws. Made by `predicted_classes`.

    Attributes
    ----------
    probability : ndarray, shape (n, classes)
    entropy : ndarray, shape (n,)
        Of these probabilities, in nats: all uncertainty.
    mutual_information : ndarray, shape (n,)
        Between class and parameters: the entropy less the mean of the draws' own entropies. That part is what the
        posterior does not know; it is large where draws disagree.
    """

    probability: Array
    entropy: Array
    mutual_information: Array

    def scores(self, labels: npt.ArrayLike, bins: int = 15) -> ClassScores:
        """Accuracy, log score, Brier score and calibration error.

        Parameters
        ----------
        labels : array_like of int, shape (n,)
            Classes that came about, from 0.
        bins : int
            Of the calibration error, of equal width.

        Raises
        ------
        ValueError
            If a label is no class, or there is not one for each datum.

        References
        ----------
        Brier (1950), Monthly Weather Review 78; Guo, Pleiss, Sun and Weinberger (2017), ICML, eq. (3).
        """
        p = self.probability
        found = array("labels", labels, (len(p),), whole=True, least=0, most=p.shape[1] - 1).astype(int)
        bins = integer("bins", bins, least=1)
        right = p[np.arange(len(p)), found]
        best, sure = p.argmax(axis=1), p.max(axis=1)
        hit = best == found
        place = np.minimum((sure * bins).astype(int), bins - 1)
        gaps = [abs(hit[place == k].sum() - sure[place == k].sum()) for k in range(bins)]
        with np.errstate(divide="ignore"):
            nll = float(-np.log(right).mean())
        brier = float(((p**2).sum(axis=1) - 2.0 * right + 1.0).mean())
        return ClassScores(float(hit.mean()), nll, brier, float(sum(gaps) / len(p)))


def predicted_classes(draws: Run | npt.ArrayLike, name: str | None = None) -> PredictedClasses:
    """Average the probabilities of classes over draws, with the draws' weights where they have some.

    Parameters
    ----------
    draws : Run, or array_like of shape (..., n, classes)
        A run that recorded logits, or logits: those of draws, or of the members of an ensemble.
    name : str, optional
        What a run calls them; they are (chain, draw, n, classes) there.

    Returns
    -------
    PredictedClasses

    Raises
    ------
    ValueError
        If there are no logits of n data and several classes.

    References
    ----------
    Depeweg, Hernandez-Lobato, Doshi-Velez and Udluft (2018), ICML, eq. (2), for the mutual information.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> probabilities = np.full((100, 5, 3), 1 / 3)  # draws, data, classes
    >>> iv.results.predicted_classes(probabilities).probability.shape
    (5, 3)
    """
    if isinstance(draws, Run):
        logits, weights = draws.draws(text("name", name)), draws.weights
    else:
        if name is not None:
            raise ValueError(f"name must be None where draws are logits themselves, got {name!r}")
        logits, weights = array("draws", draws, finite=False), None
    if logits.ndim < 2 or logits.shape[-1] < 2 or 0 in logits.shape:
        raise ValueError(f"draws must be logits of shape (..., n, classes), got {logits.shape}")
    rows = logits.reshape(-1, *logits.shape[-2:])
    share = np.full(len(rows), 1.0 / len(rows)) if weights is None else weights.ravel() / weights.sum()
    probability, own = np.zeros(rows.shape[1:]), np.zeros(rows.shape[1])
    step = max(1, _AT_ONCE // (rows.shape[1] * rows.shape[2]))
    for begin in range(0, len(rows), step):
        some = slice(begin, begin + step)
        p = softmax(np.asarray(rows[some], dtype=float), axis=-1)
        probability += np.tensordot(share[some], p, axes=1)
        own += share[some] @ entr(p).sum(axis=-1)
    entropy = entr(probability).sum(axis=-1)
    return PredictedClasses(probability, entropy, np.maximum(entropy - own, 0.0))


def auroc(inside: npt.ArrayLike, outside: npt.ArrayLike) -> float:
    """How well scores, such as entropies, detect other data: the area under the receiver operating characteristic.

    Parameters
    ----------
    inside, outside : array_like, shape (n,) and (m,)
        Scores of data as those that were learned from, and of others, which should be larger.

    Returns
    -------
    float
        The probability that one from outside has the larger score, ties for half: 1 separates all, 1/2 none.

    Raises
    ------
    ValueError
        If there are no scores, or NaN among them.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.results.auroc(inside=[0.1, 0.2], outside=[0.3, 0.15])
    0.75
    """
    near, far = array("inside", inside, ("n",), finite=False), array("outside", outside, ("m",), finite=False)
    ordered = np.sort(near)
    below = np.searchsorted(ordered, far, side="left") + np.searchsorted(ordered, far, side="right")
    return float(below.sum() / (2.0 * len(near) * len(far)))
