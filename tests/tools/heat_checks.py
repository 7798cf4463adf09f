"""Heat problems with every kind of unknown, on either backend; also run by ranks that `launch.mpi` starts."""

from __future__ import annotations

import numpy as np
from space_checks import irregular_mesh

from invsamp.solvers.fem.fields import Constant, GaussianBump, LogField, Modes, PerRegion, Sum
from invsamp.solvers.fem.mesh import unit_square
from invsamp.solvers.fem.random_fields import Matern, SquaredExponential, karhunen_loeve, square_rule
from invsamp.solvers.heat import (
    DecayingGaussian,
    Disc,
    HeatEquation,
    dirichlet,
    neumann,
    point_sensors,
    region_averages,
)

END, STEPS = 0.06, 4
SCHEMES = ("backward_euler", "crank_nicolson")
SENSORS = [
    point_sensors([[0.31, 0.42], [0.5, 0.5], [0.77, 0.2], [0.93, 0.06]]),
    region_averages([Disc((0.6, 0.6), 0.3)]),
]
BUMP = GaussianBump(0.2, 2.0)
#: Settings of `HeatEquation` and what each unknown lies around.
PROBLEMS = {
    "center, zero values": ({"initial": BUMP}, [0.44, 0.37]),
    "center, no flux": ({"initial": BUMP, "boundary": "neumann", "conductivity": 1.3}, [0.44, 0.37]),
    "center, manufactured": (
        {"initial": DecayingGaussian(0.2), "boundary": "exact", "conductivity": 1.3},
        [0.44, 0.37],
    ),
    "bump's width and height": ({"initial": GaussianBump("w", "h")}, [0.44, 0.37, 0.2, 2.0]),
    "initial modes": (
        {"initial": Modes("z", karhunen_loeve(SquaredExponential(0.4), *square_rule(6), count=4))},
        [0.3, -0.4, 0.2, 0.1],
    ),
    "source": ({"initial": 0.5, "source": GaussianBump("w", "h"), "boundary": "neumann"}, [0.44, 0.37, 0.2, 2.0]),
    "edge": (
        {"initial": 1.0, "boundary": {"left": dirichlet("warm"), "top": dirichlet(2.0), "right": neumann("flux")}},
        [0.7, 1.5],
    ),
    "conductivity": ({"initial": GaussianBump(0.2, 2.0, (0.4, 0.4)), "conductivity": "k"}, [0.8]),
    "conductivity per cell and region": (
        {
            "mesh": irregular_mesh(),
            "initial": lambda points: np.sin(np.pi * points).prod(axis=1),
            "conductivity": LogField(PerRegion({"core": "a"}, elsewhere="b")),
            "boundary": "neumann",
        },
        [0.3, -0.4],
    ),
    "conductivity's modes": (
        {
            "initial": GaussianBump(0.2, 2.0, (0.4, 0.4)),
            "conductivity": LogField(Modes("z", karhunen_loeve(Matern(1.5, 0.4), *square_rule(6), count=4), -0.5)),
        },
        [0.3, -0.4, 0.2, 0.1],
    ),
    "everything": (
        {
            "initial": Sum(Constant("base"), GaussianBump("w", "h")),
            "source": GaussianBump("w", 3.0, ("sx", "sy")),
            "conductivity": LogField(Modes("z", karhunen_loeve(Matern(0.5, 0.4), *square_rule(6), share=0.8))),
            "boundary": {"left": dirichlet("warm"), "bottom": neumann("flux")},
        },
        None,
    ),
}


def model(name, backend, scheme="crank_nicolson", comm=None, **keywords):
    """The forward model of a problem, at two times."""
    settings = dict(PROBLEMS[name][0])
    settings.setdefault("mesh", unit_square(10))
    equation = HeatEquation(steps=STEPS, end_time=END, scheme=scheme, backend=backend, comm=comm, **settings)
    return equation.observe(SENSORS, times=[END / 2, END], **keywords)


def parameters(name, rows=3):
    """Rows of theta (rows, p), and a direction (p,)."""
    rng = np.random.default_rng(5)
    around = PROBLEMS[name][1]
    if around is None:
        around = 0.2 + 0.6 * rng.random(sum(model(name, "skfem").equation.sizes))
    around = np.asarray(around)
    return around * (1 + 0.1 * rng.uniform(-1, 1, (rows, len(around)))), around * rng.normal(size=len(around))


def evaluated(forward, name):
    """Observations and the product of a cotangent with their derivatives."""
    theta, _ = parameters(name)
    y, vjp = forward.linearize(theta)
    # several ranks add up in the order in which messages come
    np.testing.assert_allclose(forward(theta), y, rtol=1e-11, atol=0)
    return y, vjp(np.random.default_rng(8).normal(size=y.shape))


def check_ranks(comm, tolerance):
    """Assert that all ranks together give what scikit-fem gives, and the same bits on each; and that failures do."""
    for name in PROBLEMS:
        found = evaluated(model(name, "dolfinx", comm=comm), name)
        # by one of them: of scikit-fem each would only do the same
        wanted = comm.bcast(evaluated(model(name, "skfem"), name) if comm.rank == 0 else None)
        for mine, whole in zip(found, wanted, strict=True):
            error = np.abs(mine - whole).max() / np.abs(whole).max()
            assert error <= tolerance, f"{name}: {error}"
            assert len(set(comm.allgather(mine.tobytes()))) == 1, name
    forward = model("conductivity", "dolfinx", comm=comm)
    theta = np.array([[0.8], [np.nan], [-1.0], [0.0], [np.inf]])
    y, vjp = forward.linearize(theta)
    failed = [False, True, True, True, True]
    for values in (y, vjp(np.ones_like(y))):
        for mask in comm.allgather(np.isnan(values).all(axis=1)):
            np.testing.assert_array_equal(mask, failed)
    assert np.isfinite(forward(theta[:1])).all()  # still works
