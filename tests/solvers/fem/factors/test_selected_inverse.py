from __future__ import annotations

import numpy as np

from invsamp.solvers.fem.factors.selected_inverse import inverse_diagonal
from invsamp.solvers.fem.mesh import unit_square
from invsamp.solvers.fem.space import Space


def test_the_diagonal_is_that_of_the_dense_inverse():
    space = Space(unit_square(9))
    matrix = space.combine(1.0, space.mass, 0.3, space.stiffness(np.linspace(1.0, 5.0, 162)))
    dense = np.linalg.inv(matrix @ np.eye(100))
    np.testing.assert_allclose(inverse_diagonal(space.factor(matrix, np.zeros(100, bool))), np.diag(dense), rtol=1e-12)


def test_a_matrix_that_was_not_factored_has_none():
    space = Space(unit_square(3))
    singular = space.stiffness(np.ones(18))
    assert np.isnan(inverse_diagonal(space.factor(singular, np.zeros(16, bool)))).all()
