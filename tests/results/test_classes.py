"""Averaged class probabilities, their scores and uncertainties."""

from __future__ import annotations

import math

import numpy as np
import pytest

import invsamp as iv
from invsamp.results.run import Run

SURE = 50.0


def run_of(logits: np.ndarray, log_weight: np.ndarray | None = None) -> Run:
    chains, draws = logits.shape[:2]
    theta = np.zeros((1, chains, draws, 1))
    return Run.from_arrays(None, {"w": (1,)}, theta, {}, {}, log_weight=log_weight, recorded={"logits": logits})


def test_draws_that_agree_and_draws_that_do_not():
    """Three data: all draws sure and of one mind; all undecided; half sure of one class, half of the other."""
    one = [[SURE, 0.0], [0.0, 0.0], [SURE, 0.0]]
    other = [[SURE, 0.0], [0.0, 0.0], [0.0, SURE]]
    found = iv.results.predicted_classes(np.array([one, other]))
    np.testing.assert_allclose(found.probability, [[1, 0], [0.5, 0.5], [0.5, 0.5]], atol=1e-12)
    np.testing.assert_allclose(found.entropy, [0, math.log(2), math.log(2)], atol=1e-12)
    np.testing.assert_allclose(found.mutual_information, [0, 0, math.log(2)], atol=1e-12)


def test_scores_by_hand():
    p = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.7, 0.3]])
    labels = [0, 1, 1, 0]
    scores = iv.results.predicted_classes(np.log(p)).scores(labels, bins=10)
    assert scores.accuracy == 0.75
    np.testing.assert_allclose(scores.nll, -np.log([0.9, 0.4, 0.8, 0.7]).mean())
    np.testing.assert_allclose(scores.brier, 2 * np.mean([0.1**2, 0.6**2, 0.2**2, 0.3**2]))
    np.testing.assert_allclose(scores.ece, (0.1 + 0.6 + 0.2 + 0.3) / 4)
    # in one bin confidence and accuracy are averages of all
    one = iv.results.predicted_classes(np.log(p)).scores(labels, bins=1)
    np.testing.assert_allclose(one.ece, abs(np.mean([0.9, 0.6, 0.8, 0.7]) - 0.75))


def test_calibrated_probabilities_have_no_error():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], size=40_000)
    labels = (rng.random((len(p), 1)) > p.cumsum(axis=1)).sum(axis=1)
    found = iv.results.predicted_classes(np.log(p))
    assert found.scores(labels).ece < 0.02
    # too sure by a factor of three in the logits
    assert iv.results.predicted_classes(3 * np.log(p)).scores(labels).ece > 0.1


def test_weights_count():
    rng = np.random.default_rng(1)
    logits = rng.standard_normal((2, 3, 5, 4)).astype(np.float32)
    counts = np.array([[1, 2, 0], [0, 3, 1]])
    with np.errstate(divide="ignore"):
        weighted = iv.results.predicted_classes(run_of(logits, np.log(counts)), "logits")
    repeated = iv.results.predicted_classes(np.repeat(logits.reshape(6, 5, 4), counts.ravel(), axis=0))
    plain = iv.results.predicted_classes(run_of(logits), "logits")
    for name in ("probability", "entropy", "mutual_information"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name))
        assert not np.allclose(getattr(weighted, name), getattr(plain, name))


def test_many_draws_are_taken_in_blocks(monkeypatch):
    logits = np.random.default_rng(2).standard_normal((7, 5, 4))
    whole = iv.results.predicted_classes(logits)
    monkeypatch.setattr("invsamp.results.classes._AT_ONCE", 40)
    np.testing.assert_allclose(iv.results.predicted_classes(logits).entropy, whole.entropy)


def test_area_under_the_curve():
    assert iv.results.auroc([1, 2, 3], [4, 5]) == 1.0 and iv.results.auroc([4, 5], [1, 2, 3]) == 0.0
    assert iv.results.auroc([1, 1], [1]) == 0.5
    assert iv.results.auroc([0, 2], [1, 3]) == 0.75


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0],), r"draws must be logits of shape \(..., n, classes\), got \(2,\)"),
        (([[1.0], [2.0]],), "draws must be logits"),
        (([[np.nan, 1.0]],), "draws must be"),
        (([[0.0, 1.0]], "logits"), "name must be None"),
        ((run_of(np.zeros((1, 2, 3, 4))),), "name must be a string"),
        ((run_of(np.zeros((1, 2, 3, 4))), "probabilities"), "name must be one of 'w', 'logits'"),
    ],
)
def test_wrong_draws(arguments, message):
    with pytest.raises(ValueError, match=message):
        iv.results.predicted_classes(*arguments)


def test_wrong_labels():
    found = iv.results.predicted_classes([[0.0, 1.0]])
    for labels in ([2], [-1], [0, 1], [0.5]):
        with pytest.raises(ValueError, match="labels must"):
            found.scores(labels)
    with pytest.raises(ValueError, match="bins must"):
        found.scores([0], bins=0)
