"""Equations in UFL on meshes spread over 1, 2 and 4 ranks: the same numbers, the same failures, no rank hangs."""

from __future__ import annotations

import json
from functools import cache

import launch
import numpy as np
import pytest

pytest.importorskip("dolfinx")
pytestmark = [pytest.mark.dolfinx, pytest.mark.mpi]

# every rank hashes what it got: the last bit counts
MODELS = """
import hashlib, json, sys
import pde_cases
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
        found = {"y": y, "gradient": vjp(weights)}
        hashes = world.allgather(hashlib.sha256(b"".join(part.tobytes() for part in found.values())).hexdigest())
        assert len(set(hashes)) == 1, name
        assert len(set(world.allgather(model.cost))) == 1 if name == "points" else True
        report[name] = {key: value.tolist() for key, value in found.items()}
        return y, found["gradient"]

    channel, problem = pde_cases.channel(world), pde_cases.everything_unknown(world, 4)
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

reports = {comm.size: report_of(comm) for comm in layouts(1, 2, 4)}

# a rank of its own for every model, which solve different rows at the same time
model = pde_cases.bratu(MPI.COMM_SELF, 4)
theta = np.array([[1.0], [2.0], [1.5], [0.5]])
mine = model(theta[MPI.COMM_WORLD.rank : MPI.COMM_WORLD.rank + 1])
everyone = np.concatenate(MPI.COMM_WORLD.allgather(mine))
assert np.array_equal(everyone, model(theta)), "alone"
if MPI.COMM_WORLD.rank == 0:
    print(json.dumps(reports))
"""


@cache
def reports() -> dict:
    """By number of ranks, of one launch."""
    return json.loads(launch.mpi(MODELS, 4).stdout.splitlines()[-1])


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", ["points", "functionals", "in time", "update", "mixed", "poisson64", "bratu"])
def test_ranks_do_not_change_the_numbers(ranks: int, name: str) -> None:
    one, several = (reports()[str(size)][name] for size in (1, ranks))
    for key in ("y", "gradient"):
        np.testing.assert_allclose(several[key], one[key], rtol=1e-9, atol=1e-11)
    failed = np.isnan(np.array(several["y"], dtype=float)).any(axis=1)
    assert failed.tolist() == ([False, True, False, True] if name == "bratu" else [False] * len(failed))
