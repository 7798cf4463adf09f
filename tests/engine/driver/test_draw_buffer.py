"""Draws in memory: positions of the rungs, returned once."""

from __future__ import annotations

import numpy as np
from functions import square

from invsamp.domains import Box
from invsamp.engine.driver.draw_buffer import Draws
from invsamp.engine.driver.engine import Engine
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.posing.posterior.function_potential import FunctionPotential
from invsamp.posing.posterior.target import Target
from invsamp.samplers import parallel_tempering, sgld


def test_stored_draws_are_returned_once():
    target = Target(FunctionPotential(square, 2))
    engine = Engine(target, parallel_tempering((1.0, 2.0, 4.0), 0.1), Plan(20, 10, 1, 3, 1))
    engine.begin()
    while engine.warming:
        engine.step()
    draws, path = Draws(engine, 5), []
    for count in (5, 2, 5):
        for _ in range(count):
            engine.step()
            path.append([(rung.position, rung.estimate.energy) for rung in engine.rungs])
            draws.append()
        segment = draws.take()
        assert set(segment.statistics) == {"energy", "replica", "acceptance_rate"}
        assert segment.positions.shape == (3, 3, count, 2)
        for i, rungs in enumerate(path[-count:]):
            for rung, (position, energy) in enumerate(rungs):
                np.testing.assert_array_equal(segment.positions[rung, :, i], position)
                np.testing.assert_array_equal(segment.statistics["energy"][rung, :, i], energy)
    assert engine.kept == 12 and engine.report()["draws"] == 12 and engine.report()["interrupted"]


def test_outside_is_counted_over_segments():
    target = Target(FunctionPotential(square, 2), Box(-0.5, 0.5))
    engine = Engine(target, sgld(0.1, boundary="ignore"), Plan(30, 0, 1, 3, 1))
    engine.begin()
    draws, outside = Draws(engine, 10), 0
    for _ in range(3):
        for _ in range(10):
            engine.step()
            draws.append()
        segment = draws.take()
        outside += int((~target.sampling_domain.contains(segment.positions.reshape(-1, 2))).sum())
    assert 0 < outside < 90
    assert engine.report()["outside"] == [outside / 90]
