"""Poisson's equation where several ranks share a mesh; tests/solvers/heat/test_backends.py starts them."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

from invsamp.solvers.fem.boundary import dirichlet, neumann
from invsamp.solvers.fem.fields import GaussianBump, LogField, PerBlock
from invsamp.solvers.poisson import PoissonEquation


def check_ranks(comm):
    """Assert that all ranks together give what each gives alone, and the same bits on each; and that NaN gives NaN."""
    boundary = {"left": dirichlet("g"), "right": neumann("q")}
    theta = 0.3 + 0.5 * np.random.default_rng(1).random((3, 12))
    for conductivity, p in ((LogField(PerBlock("b", (3, 2))), 12), (2.0, 6)):
        found = []
        for shared in (MPI.COMM_SELF, comm):
            settings = {"boundary": boundary, "backend": "dolfinx", "comm": shared}
            equation = PoissonEquation(8, conductivity, GaussianBump("w", "h"), **settings)
            y, vjp = equation.observe([[0.3, 0.4], [0.7, 0.1]]).linearize(theta[:, :p])
            found.append(np.concatenate([y, vjp(np.ones_like(y))], axis=1))
        assert found[0].shape == (3, p + 2)
        np.testing.assert_allclose(found[1], found[0], rtol=1e-9)
        everywhere = comm.allgather(found[1])
        assert all(np.array_equal(everywhere[0], other) for other in everywhere)
        assert np.isnan(equation.observe([[0.5, 0.5]])(np.full((1, p), np.nan))).all()
