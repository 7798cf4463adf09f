"""Selection of terms: which are found, within bounds, and that noise alone is not taken for one."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

from invsamp.solvers.gradient_matching import linear_in_parameters, select, weak
from invsamp.solvers.gradient_matching.selection import _Subsets

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from term_selection import TRUE, candidates, error, lorenz

LIBRARY = linear_in_parameters(
    lambda t, x, p: (p[0] * x[0] + p[1] * x[1] + p[2] * x[0] ** 3, p[3] * x[0] + p[4] * x[1] + p[5] * x[1] ** 3),
    states=("x", "v"),
    parameters=("xx", "xv", "xc", "vx", "vv", "vc"),
)


def oscillator(seed: int, sd: float = 1e-3, damping: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    times = np.linspace(0, 10, 501)
    matrix = np.array([[0.0, 1.0], [-4.0, -damping]])
    values, vectors = np.linalg.eig(matrix)
    start = np.linalg.solve(vectors, [1.0, 0.0])
    states = np.real((np.exp(np.outer(times, values)) * start) @ vectors.T)
    return times, states + sd * np.random.default_rng(seed).standard_normal(states.shape)


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 20), marks=pytest.mark.slow)])
def test_lorenz_from_thirty_terms(seeds):
    for seed in seeds:
        times, states, sd = lorenz(seed, 0.004, 8.0, 0.01)
        found = select(candidates(), times, states, sd, derivatives=weak(radius=20, noise=sd), pairs=3)
        values = dict(zip(found.parameters, found.mean.tolist(), strict=True))
        assert set(values) == set(TRUE)
        assert error(values) < 0.02
        true = np.array([TRUE[name] for name in found.parameters])
        # 140 of these in all: a bound that one of them passes in 1e-6 of the cases
        assert (np.abs(found.mean - true) < 6.0 * found.sd).all()


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 20), marks=pytest.mark.slow)])
def test_a_term_that_is_small_is_found_where_the_data_show_it(seeds):
    more = 0
    for seed in seeds:
        assert set(select(LIBRARY, *oscillator(seed), 1e-3, pairs=5).parameters) == {"xv", "vx", "vv"}
        hidden = oscillator(seed, sd=0.1, damping=0.01)
        found = set(select(LIBRARY, *hidden, 0.1, pairs=10).parameters)
        assert found >= {"xv", "vx"} and "vv" not in found
        more += len(found) > 2
    # noise may look like another term now and then: in one of 20 data sets
    assert more <= len(seeds) // 6


def test_bounds_hold_and_change_what_is_chosen():
    found = select(
        LIBRARY, *oscillator(1, damping=0.1), 1e-3, bounds={"vv": (0.0, np.inf), "vx": (-3.9, np.inf)}, pairs=2
    )
    values = dict(zip(found.parameters, zip(found.mean, found.sd, strict=True), strict=True))
    assert "vv" not in values
    assert values["vx"] == pytest.approx((-3.9, 0.0))


def test_no_move_of_one_term_improves_what_is_found():
    """By fits of all subsets of six random columns. Of these the best one is found in most cases."""
    rng, found_best = np.random.default_rng(0), 0
    for _ in range(20):
        design = rng.standard_normal((40, 6)) @ (np.eye(6) + 0.3 * rng.standard_normal((6, 6)))
        data = design @ (rng.standard_normal(6) * (rng.random(6) < 0.5)) + rng.standard_normal(40)
        every = {}
        for each in itertools.product([False, True], repeat=6):
            chosen = np.array(each)
            rest = data - design[:, chosen] @ np.linalg.lstsq(design[:, chosen], data, rcond=None)[0]
            every[each] = rest @ rest + np.log(40) * chosen.sum()
        best = tuple(_Subsets(design, data, np.full(6, -np.inf), np.full(6, np.inf)).best())
        moves = [tuple(flag ^ (k == j) for j, flag in enumerate(best)) for k in range(6)]
        assert every[best] <= min(every[move] for move in moves) + 1e-9
        found_best += every[best] <= min(every.values()) + 1e-9
    assert found_best >= 15


def test_noise_is_estimated_and_equations_are_printed():
    found = select(LIBRARY, *oscillator(2), pairs=2)
    np.testing.assert_allclose(found.noise, 1e-3, rtol=0.2)
    assert str(found).splitlines()[0] == "x' = 1 v"
    assert found.library.parameters == found.parameters
    assert found.share["xc"] < 0.9 < found.share["xv"]


def test_bad_input():
    data = oscillator(1)
    with pytest.raises(ValueError, match="library must be a Library"):
        select(data, *data)
    with pytest.raises(ValueError, match=r"bounds must be of parameters .*got 'none'"):
        select(LIBRARY, *data, bounds={"none": (0, 1)})
    with pytest.raises(ValueError, match=r"bounds\['xx'\] must be a lower and an upper end"):
        select(LIBRARY, *data, bounds={"xx": (1, 0)})
    with pytest.raises(ValueError, match=r"out of .* got .*'zz'"):
        LIBRARY.subset(["zz"])
