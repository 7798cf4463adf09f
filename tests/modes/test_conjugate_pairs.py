"""A preconditioner from what conjugate gradients have learned, against dense algebra."""

import numpy as np
import pytest

from invsamp.modes.conjugate_pairs import MOST, ConjugatePairs

D, RUN = 12, 5


@pytest.fixture
def matrix():
    root = np.random.default_rng(1).standard_normal((D, D))
    return np.eye(D) + root @ root.T


def conjugate(matrix, learned, start):
    """Directions of a run that begins with a residual, images, and curvatures."""
    directions, images, curvatures, left = [], [], [], start
    direction = learned.times(left)
    for _ in range(RUN):
        image = matrix @ direction
        directions.append(direction)
        images.append(image)
        curvatures.append(direction @ image)
        left = left - (direction @ left) / curvatures[-1] * image
        ahead = learned.times(left)
        direction = ahead - (ahead @ image) / curvatures[-1] * direction
    return directions, images, curvatures


def dense(learned):
    return np.stack([learned.times(column) for column in np.eye(D)], axis=1)


def test_it_is_the_inverse_where_a_run_has_been(matrix):
    run = conjugate(matrix, ConjugatePairs(), np.random.default_rng(2).standard_normal(D))
    found = dense(ConjugatePairs().then(*run))
    images = np.array(run[1])
    np.testing.assert_allclose(images @ found, np.array(run[0]), atol=1e-8)
    np.testing.assert_allclose(found, found.T, atol=1e-10)
    assert np.abs(found - np.linalg.inv(matrix)).max() > 1e-3  # not apart from there


def test_it_stays_positive_definite_and_the_last_run_counts(matrix):
    rng = np.random.default_rng(3)
    learned = ConjugatePairs().then(*conjugate(matrix, ConjugatePairs(), rng.standard_normal(D)))
    other = matrix + np.diag(np.linspace(0.0, 50.0, D))
    run = conjugate(other, learned, rng.standard_normal(D))
    found = dense(learned.then(*run))
    assert np.linalg.eigvalsh(0.5 * (found + found.T)).min() > 0.0
    np.testing.assert_allclose(np.array(run[1]) @ found, np.array(run[0]), atol=1e-8)


def test_without_runs_it_is_the_identity_and_the_oldest_go_first():
    vector = np.arange(1.0, D)
    assert ConjugatePairs().times(vector) is vector and ConjugatePairs().then([], [], []) == ConjugatePairs()
    many = [np.eye(1, 4)[0]] * (MOST // 2 + 1)
    twice = ConjugatePairs().then(many, many, [1.0] * len(many)).then(many, many, [2.0] * len(many))
    assert [run.curvatures[0] for run in twice.runs] == [2.0]
