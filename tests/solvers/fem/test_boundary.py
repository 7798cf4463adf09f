"""Boundary conditions on a space: which nodes are fixed, at what, and what flows in."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.solvers.fem.boundary import (
    Dirichlet,
    Neumann,
    checked_boundary,
    dirichlet,
    edge_values,
    fixed_nodes,
    flux_load,
    names,
    neumann,
)
from invsamp.solvers.fem.mesh import unit_square
from invsamp.solvers.fem.space import Space

SPACE = Space(unit_square(4))
X, Y = SPACE.nodes.T


def values(linear, theta):
    return linear.values(np.array([theta], dtype=float))[0]


def test_whole_boundaries():
    assert fixed_nodes("dirichlet", SPACE).sum() == fixed_nodes("exact", SPACE).sum() == 16
    assert not fixed_nodes("neumann", SPACE).any()
    for boundary in ("dirichlet", "neumann", "exact"):
        assert edge_values(boundary, SPACE) is None and flux_load(boundary, SPACE) is None
        assert names(boundary, Dirichlet) == ()


def test_where_parts_meet_the_later_one_counts():
    boundary = {"left": dirichlet("warm"), "bottom": dirichlet(2.0), "top": dirichlet("warm"), "right": neumann(1.0)}
    np.testing.assert_array_equal(fixed_nodes(boundary, SPACE), (X == 0) | (Y == 0) | (Y == 1))
    assert names(boundary, Dirichlet) == ("warm",) and names(boundary, Neumann) == ()
    expected = np.where(Y == 0, 2.0, np.where((X == 0) | (Y == 1), 7.0, 0.0))
    np.testing.assert_array_equal(values(edge_values(boundary, SPACE), [7.0]), expected)
    # zero, named last, still counts
    cold = {"left": dirichlet(3.0), "bottom": dirichlet(0.0)}
    np.testing.assert_array_equal(values(edge_values(cold, SPACE), []), np.where((X == 0) & (Y > 0), 3.0, 0.0))


def test_fluxes_add_up():
    boundary = {
        "left": neumann("q"),
        "right": neumann("q"),
        "top": neumann(2.0),
        (lambda p: p[:, 1] == 0): neumann(0.5),
    }
    load = values(flux_load(boundary, SPACE), [3.0])
    assert names(boundary, Neumann) == ("q",)
    np.testing.assert_allclose(load.sum(), 3.0 + 3.0 + 2.0 + 0.5, rtol=1e-12)
    np.testing.assert_allclose(load @ X, 3.0 + 0.5 * (2.0 + 0.5), rtol=1e-12)
    assert flux_load({"left": neumann()}, SPACE) is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dirichlet(np.nan), "value must be a finite number, or a name for an unknown, got nan"),
        (lambda: dirichlet(""), "value must be a finite number, or a name for an unknown, got ''"),
        (lambda: neumann([1.0]), r"flux must be a finite number, or a name for an unknown, got \[1.0\]"),
        (lambda: checked_boundary("open"), "boundary must be one of .*, got 'open'"),
        (lambda: checked_boundary(None), "boundary must be one of .* or a mapping .*, got None"),
        (
            lambda: checked_boundary({"left": 1.0}),
            r"boundary\['left'\] must be dirichlet\(...\) or neumann\(...\), got 1.0",
        ),
        (lambda: fixed_nodes({"side": dirichlet()}, SPACE), "a part of the boundary must be one of"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
