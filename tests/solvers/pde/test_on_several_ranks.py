"""Equations on meshes spread over 1, 2 and 4 ranks: the same numbers, the same failures, no rank hangs.

All of them, and the heat equation's and Poisson's beside scikit-fem, in one launch: to start ranks costs more than all
that they do.
"""

from __future__ import annotations

import itertools
import json

import launch
import numpy as np
import pytest

pytest.importorskip("dolfinx")
pytestmark = [pytest.mark.dolfinx, pytest.mark.mpi]

# every rank hashes what it got: the last bit counts
MODELS = """
import hashlib, json, sys
import heat_checks, pde_cases, poisson_checks, space_checks
import numpy as np
from layouts import layouts
from mpi4py import MPI
from invsamp.problems import poisson64

def report_of(world):
    report = {}

    def look(name, model, theta):
        assert model.comm.size == world.size
        y, vjp = model.linearize(theta)
        weights = np.cos(np.arange(y.size)).reshape(y.shape)
        directions = np.cos(1.0 + np.arange(theta.size)).reshape(len(theta), 1, -1)
        found = {"y": y, "gradient": vjp(weights), "along": model.tangent(theta)[1](directions)}
        hashes = world.allgather(hashlib.sha256(b"".join(part.tobytes() for part in found.values())).hexdigest())
        assert len(set(hashes)) == 1, name
        assert len(set(world.allgather(model.cost))) == 1 if name == "points" else True
        report[name] = {key: value.tolist() for key, value in found.items()}
        return y, found["gradient"]

    channel, problem = pde_cases.channel(world, source=True), pde_cases.everything_unknown(world, 4)
    for name, model in (
        ("points", problem.observe(pde_cases.SENSORS)),
        ("functionals", problem.observe(pde_cases.functionals(problem))),
        ("in time", pde_cases.evolution(world, 4).observe(pde_cases.SENSORS, [0.05, 0.1])),
        ("update", pde_cases.moving_edge(world)[0].observe(pde_cases.SENSORS, [0.02, 0.1])),
        ("mixed", channel.observe(pde_cases.channel_sensors(channel))),
    ):
        look(name, model, np.concatenate([pde_cases.near_reference(model, seed) for seed in (1, 2)]))
    look("poisson64", poisson64.in_ufl(8, comm=world), np.random.default_rng(0).normal(0.0, 1.0, (2, 64)))
    # a row without solution is NaN everywhere, and those after it are solved
    look("bratu", pde_cases.bratu(world, 4), np.array([[5.0], [9.0], [1.0], [np.nan]]))

    # NaN in the cells of one rank alone is a failed solve on all of them, and leaves nothing behind
    broken, conductivity = pde_cases.moving_edge(world)
    model = broken.observe(pde_cases.SENSORS)
    good = model(np.array([[1.0]]))
    for spoilt in range(world.size):
        conductivity.x.array[:] = np.nan if world.rank == spoilt else 1.0
        y, vjp = model.linearize(np.array([[1.0]]))
        assert np.isnan(y).all() and np.isnan(vjp(np.ones_like(y))).all()
    conductivity.x.array[:] = 1.0
    np.testing.assert_allclose(model(np.array([[1.0]])), good, rtol=1e-12)

    for sensors, message in (([[0.5, 0.5], [0.5, 1.5]], "must lie in the mesh, got [0.5, 1.5]"),):
        try:
            problem.observe(sensors)
            said = "nothing"
        except ValueError as error:
            said = str(error)
        assert all(message in words for words in world.allgather(said))

    return report

reports, checked = {}, []
for comm in layouts(1, 2, 4):
    reports[comm.size] = report_of(comm)
    if comm.size > 1:
        space_checks.check_ranks(comm)
        heat_checks.check_ranks(comm, 1e-9)
        poisson_checks.check_ranks(comm)
        checked.append(comm.size)

# a rank of its own for every model, which solve different rows at the same time
model = pde_cases.bratu(MPI.COMM_SELF, 4)
theta = np.array([[1.0], [2.0], [1.5], [0.5]])
mine = model(theta[MPI.COMM_WORLD.rank : MPI.COMM_WORLD.rank + 1])
everyone = np.concatenate(MPI.COMM_WORLD.allgather(mine))
assert np.array_equal(everyone, model(theta)), "alone"
if MPI.COMM_WORLD.rank == 0:
    print(json.dumps({"models": reports, "checked": checked}))
"""


def test_ranks_do_not_change_the_numbers() -> None:
    """One test, as two processes that share tests would each make the launch."""
    results = json.loads(launch.mpi(MODELS, 4).stdout.splitlines()[-1])
    assert results["checked"] == [2, 4]
    for ranks, name in itertools.product((2, 4), results["models"]["1"]):
        one, several = (results["models"][str(size)][name] for size in (1, ranks))
        for key in ("y", "gradient", "along"):
            what = f"{key} of {name} on {ranks} ranks"
            np.testing.assert_allclose(several[key], one[key], rtol=1e-9, atol=1e-11, err_msg=what)
        failed = np.isnan(np.array(several["y"], dtype=float)).any(axis=1)
        assert failed.tolist() == ([False, True, False, True] if name == "bratu" else [False] * len(failed)), name
