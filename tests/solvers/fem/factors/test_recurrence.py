"""The loop over the steps: what it says it does, and the compiled one to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.solvers.fem.factors.recurrence import Recurrence
from invsamp.solvers.fem.mesh import unit_square
from invsamp.solvers.fem.space import Space

SPACE = Space(unit_square(4))
FIXED = np.flatnonzero(SPACE.on_boundary("left"))
IMPLICIT = SPACE.combine(1.0, SPACE.mass, 0.05, SPACE.stiffness(np.linspace(1.0, 2.0, 32)))


@pytest.fixture(scope="module")
def factors():
    return SPACE.factor(IMPLICIT, SPACE.on_boundary("left"))


def recurrence(columns, keep=(0, 2, 5)):
    rng = np.random.default_rng(0)
    factors, weights = rng.normal(size=(5, 2)), rng.normal(size=(3, 5))
    factors[1, 0] = weights[1, 3] = 0.0
    return Recurrence(rng.normal(size=(25, columns)), rng.normal(size=(2, 25, columns)), factors, keep, weights)


def test_by_dense_matrices(factors):
    given = recurrence(3)
    implicit, explicit = IMPLICIT @ np.eye(25), SPACE.mass @ np.eye(25)
    implicit[FIXED] = np.eye(25)[FIXED]
    found = factors.march(SPACE.mass, FIXED, given)
    states = [given.start]
    for row in given.factors:
        added = np.tensordot(row, given.added, axes=1)
        right = explicit @ states[-1] + added
        right[FIXED] = added[FIXED]
        # what is fixed is known: the free nodes see it through `added` alone
        free = np.setdiff1d(np.arange(25), FIXED)
        state = right.copy()
        state[free] = np.linalg.solve(implicit[np.ix_(free, free)], right[free])
        states.append(state)
    np.testing.assert_allclose(found.kept, np.array(states)[[0, 2, 5]], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.sums, np.tensordot(given.weights, states[1:], axes=1), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("keep", [(0, 2, 5), (5,), range(5, -1, -1)])
def test_the_compiled_loop_of_one_column_gives_the_same_bits(keep, factors):
    block = recurrence(3, keep)
    expected = factors.march(SPACE.mass, FIXED, block)
    for k in range(3):
        one = block._replace(start=block.start[:, k : k + 1], added=block.added[:, :, k : k + 1])
        before = one.start.copy()
        found = factors.march(SPACE.mass, FIXED, one)
        np.testing.assert_array_equal(found.kept, expected.kept[:, :, k : k + 1])
        np.testing.assert_array_equal(found.sums, expected.sums[:, :, k : k + 1])
        np.testing.assert_array_equal(one.start, before)


def test_without_steps_only_the_start_is_left(factors):
    given = recurrence(1, (0,))
    found = factors.march(SPACE.mass, FIXED, given._replace(factors=np.empty((0, 2)), weights=np.empty((3, 0))))
    np.testing.assert_array_equal(found.kept[0], given.start)
    assert not found.sums.any()
