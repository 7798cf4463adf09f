"""Paths that end at a discontinuity of the energy inform the step size by their part before it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import invsamp as iv
from invsamp.kernels import paths

#: Of a standard normal number that is below .3: its mean, by the ratio of density and distribution.
EDGE = 0.3
MEAN = -math.exp(-0.5 * EDGE**2) / math.sqrt(2.0 * math.pi) / (0.5 * (1.0 + math.erf(EDGE / math.sqrt(2.0))))


def cut_off(height):
    """Two normal numbers; beyond an edge of the first the energy is so much higher, or there is none."""

    def function(x):
        energy = 0.5 * np.square(x).sum(axis=1) + np.where(x[:, 0] > EDGE, height, 0.0)
        return energy, np.where(np.isfinite(energy)[:, None], x, 0.0)

    return iv.Target(iv.extending.FunctionPotential(function, 2))


@pytest.mark.parametrize("height", [50.0, np.inf])
@pytest.mark.parametrize("sampler", [iv.mams, iv.hmc])
def test_steps_are_not_shortened_at_a_cliff(draw, agrees, monkeypatch, sampler, height):
    start = -np.linspace(0.1, 0.9, 128).reshape(64, 2)
    run = draw(cut_off(height), sampler(), draws=60, warmup=200, chains=64, start=start)
    assert run.report["cliffs"][0] > 100
    assert agrees(run.theta[..., 0].mean(axis=1), MEAN)
    assert not agrees(run.theta[..., 0].mean(axis=1), 0.0)  # of a path that goes on beyond
    with monkeypatch.context() as changed:
        changed.setattr(paths._Cliffs, "before", lambda self, log_ratio: (log_ratio, -1))
        held = draw(cut_off(height), sampler(), draws=2, warmup=200, chains=64, start=start)
    assert held.report["step_sizes"][0] < 0.5 * run.report["step_sizes"][0]


def test_acceptance_statistic_of_a_path():
    """Four paths of three steps: smooth, over a cliff at its second step, at its first one, and where a solve fails."""
    steps = [0.0] * 4, [0.1, 0.1, 40.0, 0.2], [0.1, 40.0, 40.0, np.inf], [3.0, 40.0, 40.0, np.inf]
    works = [np.array([-0.1, 0.1, 0.0, 0.0])] + 2 * [np.zeros(4)]
    slopes = [np.full(4, 0.1), np.full(4, 0.1), np.array([2.0, 0.1, 0.1, 0.1])]
    cliffs = paths._Cliffs(4)
    with np.errstate(invalid="ignore"):
        for leap, rise in enumerate(np.diff(steps, axis=0)):
            cliffs.look(rise, slopes[leap], works[leap], leap)
    smooth, count = cliffs.before(np.array([-2.9, -40.1, -40.0, -np.inf]))
    np.testing.assert_allclose(smooth, [-2.9, -0.2, -40.0, -0.2])
    assert count == 2
    assert cliffs.before(np.full(4, -0.9))[1] == -1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sampler", [iv.mams, iv.hmc])
def test_a_steep_way_up_is_no_cliff(sampler):
    """Steps as long as a narrow direction just bears, nearly twice its width: energies rise by tens, as slopes say."""
    widths = np.array([1.0, 1.0, 1.0, 0.01])
    target = iv.Target(
        iv.extending.FunctionPotential(lambda x: (0.5 * np.square(x / widths).sum(axis=1), x / widths**2), 4)
    )
    kernel = sampler(0.5 * (1.9 * widths[-1]) ** 2, preconditioner=None)
    run = iv.sample(target, kernel, draws=40, warmup=0, chains=16, seed=1, start=np.zeros(4), progress=False)
    assert 0.1 < run.report["acceptance"][0] < 0.9
    assert run.report["cliffs"][0] == 0
