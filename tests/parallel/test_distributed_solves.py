"""Runs whose forward solves are distributed, by dolfinx: the same draws as alone, to the last digits."""

from __future__ import annotations

import launch
import pytest

pytestmark = [pytest.mark.mpi, pytest.mark.dolfinx]

SCRIPT = """
    import warnings

    import no_arviz
    import numpy as np
    import invsamp as iv
    from invsamp import parallel
    from invsamp.parallel.groups import Groups
    from invsamp.sampling import sample
    from invsamp.solvers.heat import GaussianBump, HeatEquation
    from mpi4py import MPI

    warnings.simplefilter("ignore")

    measured = Groups._seconds

    def seconds(groups, size, position):
        measured(groups, size, position)
        return 1.0 / size**2  # as of large meshes: those here are solved faster by one process

    Groups._seconds = seconds

    def heat(cells, comm):
        equation = HeatEquation(
            cells=cells, steps=2, end_time=0.05, initial=GaussianBump(center=("x", "y"), width=0.2, height=5.0),
            conductivity="kappa", backend="dolfinx", comm=comm,
        )
        return equation.observe([[0.3, 0.3], [0.7, 0.3], [0.3, 0.7], [0.7, 0.7]])

    def run(coarse, fine, comm=None):
        prior = iv.Prior(x=iv.Uniform(0, 1), y=iv.Uniform(0, 1), kappa=iv.LogNormal(-1.0, 0.3))
        data = np.array([1.0, 0.4, 0.6, 0.3])
        models = {"coarse": coarse, "fine": fine}
        posterior = iv.Posterior(prior, noise=iv.GaussianNoise(0.1), data=data, forward=models)
        sampler = iv.samplers.parallel_tempering((1.0, 4.0), 0.005, preconditioner=None, swap_fraction=1.0)
        return sample(posterior, sampler, draws=8, warmup=0, chains=2, seed=1, progress=False, comm=comm)

    alone = run(heat(3, None), heat(6, None), MPI.COMM_SELF)
    assert alone.report["processes"] == {"count": 1}
    assert alone.report["swap_accepts"][0] > 0
    grouped = run(*(parallel.distributed(lambda comm, n=n: heat(n, comm)) for n in (3, 6)))
    fixed = run(heat(3, None), heat(6, MPI.COMM_WORLD))
    for joint in (grouped, fixed):
        assert joint.report["processes"]["groups"] == 1
        assert joint.report["processes"]["solved"]["fine"] == "jointly"
        for k in range(2):
            np.testing.assert_allclose(joint.rung_theta(k), alone.rung_theta(k), rtol=1e-9, atol=1e-9)
        # every process has all draws, to the bit
        draws = MPI.COMM_WORLD.allgather(joint.rung_theta(1))
        assert all(np.array_equal(draws[0], other) for other in draws)
    if parallel.rank() == 0:
        print("compared")
"""


def test_the_same_draws_as_alone():
    pytest.importorskip("dolfinx")
    assert "compared" in launch.mpi(SCRIPT, 2).stdout
