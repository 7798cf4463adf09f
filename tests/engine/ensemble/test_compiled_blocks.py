"""Stretches of draws in compiled loops are those that Python makes step by step, to the bit."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest

import invsamp as iv
from invsamp.engine.driver import serialization
from invsamp.engine.driver.draw_buffer import Draws
from invsamp.engine.driver.engine import Engine
from invsamp.engine.ensemble import compiled_blocks
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.kernels import Microcanonical
from invsamp.kernels.compiled import langevin_loop, path_loop
from invsamp.kernels.schedules import polynomial
from invsamp.samplers import ghmc, hmc, mala, mams, parallel_tempering, sghmc, sgld
from invsamp.swaps.schemes import adjacent, seo

#: Beyond it the density is not a number, or raises.
EDGE = 2.0


@numba.njit
def density(x):
    """Log density of independent normal numbers of variances 1, 2, ..., and its gradient."""
    values, slopes = np.zeros(len(x)), np.empty(x.shape)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            slopes[i, j] = -x[i, j] / (1.0 + j)
            values[i] += 0.5 * x[i, j] * slopes[i, j]
    return values, slopes


@numba.njit
def ending(x):
    values, slopes = density(x)
    for i in range(len(x)):
        if x[i, 0] > EDGE:
            values[i] = np.nan
    return values, slopes


@numba.njit
def raising(x):
    if (x[:, 0] > 0.6 * EDGE).any():
        raise ValueError("beyond the edge")
    return density(x)


@numba.njit
def of_one(x):
    return -0.5 * (x[0] ** 2 + 0.5 * x[1] ** 2)


@numba.njit
def slope_of_one(x):
    return np.array([-x[0], -0.5 * x[1]])


TARGET = iv.Target(iv.LogDensity(density, True, dimension=3))
SAMPLERS = {
    "sgld": sgld(0.05),
    "sgld, schedule": sgld(polynomial(0.05)),
    "sghmc": sghmc(),
    "mala": mala(),
    "mala, diagonal": mala(preconditioner="diagonal"),
    "ghmc": ghmc(),
    "hmc": hmc(),
    "mams": mams(),
    "ladder": parallel_tempering((1.0, 3.0, 9.0), 0.1, friction=0.2, swap_fraction=0.2),
    "swaps after each step": parallel_tempering((1.0, 2.0, 4.0), 0.02, adjusted=False, friction=0.2, scheme=seo()),
    "swaps after each path": parallel_tempering((1.0, 3.0), 0.3, kernel=Microcanonical()),
    "ladder of sghmc": parallel_tempering((1.0, 3.0), 0.02, adjusted=False, friction=0.2, swap_fraction=0.2),
}
#: What two runs cannot share.
OWN = {"seconds", "evaluation_seconds", "execution"}


@pytest.fixture
def compiled(monkeypatch):
    monkeypatch.setattr(compiled_blocks, "PATIENCE", 0.0)


def drawn(engine, most=10**6):
    """Draws of the rest of a run, its statistics, and what it reports."""
    draws = Draws(engine, engine.plan.draws)
    while engine.done < engine.steps:
        engine.step(most, draws)
        draws.after_step()
    report = {name: value for name, value in engine.report().items() if name not in OWN}
    found = draws.take()
    return {"positions": found.positions} | found.statistics, report, engine.report()["execution"]


def begun(sampler, plan, target=TARGET):
    engine = Engine(target, sampler, plan)
    engine.begin()
    return engine


def check_same(found, wanted):
    assert list(found[0]) == list(wanted[0])
    for name, values in wanted[0].items():
        np.testing.assert_array_equal(found[0][name], values, err_msg=name)
    assert repr(found[1]) == repr(wanted[1])


@pytest.mark.parametrize("name", SAMPLERS)
def test_draws_and_report_are_those_of_python(name, monkeypatch):
    plan = Plan(draws=60, warmup=0 if SAMPLERS[name].rungs[0].step_size else 200, thin=3, chains=2, seed=5)
    monkeypatch.setattr(compiled_blocks, "PATIENCE", math.inf)
    wanted = drawn(begun(SAMPLERS[name], plan))
    assert all("Python" in how for how in wanted[2])
    monkeypatch.setattr(compiled_blocks, "PATIENCE", 0.0)
    steps = []
    for module in (langevin_loop, path_loop):

        def counted(block, *others, loop=module._loop):
            made, more = loop(block, *others)
            steps.append(made * len(block.temperatures))
            return made, more

        monkeypatch.setattr(module, "_loop", counted)
    found = drawn(begun(SAMPLERS[name], plan))
    check_same(found, wanted)
    assert set(found[2]) == {"compiled"}
    # the first few steps of a kernel are checked, and Python makes those
    assert sum(steps) >= len(SAMPLERS[name].rungs) * (180 - 16)
    with pytest.raises(AssertionError):
        check_same(found, drawn(begun(SAMPLERS[name], Plan(60, plan.warmup, 3, 2, 6))))


def test_densities_of_one_theta_are_compiled_too(compiled):
    plan = Plan(draws=30, warmup=0, thin=1, chains=2, seed=1)
    one = iv.LogDensity(iv.scalar_function(of_one, slope_of_one), dimension=2)
    found = drawn(begun(sgld(0.05), plan, iv.Target(one)))
    assert found[2] == ["compiled"]
    python = iv.LogDensity(lambda x: -0.5 * (x**2 @ [1.0, 0.5]), lambda x: -x * [1.0, 0.5], dimension=2)
    wanted = drawn(begun(sgld(0.05), plan, iv.Target(python)))
    assert "no functions of numba.njit" in wanted[2][0]
    np.testing.assert_allclose(found[0]["positions"], wanted[0]["positions"], rtol=1e-9)


@pytest.mark.parametrize("sampler", [sgld(0.05), mala(0.3), mams(0.3), parallel_tempering((1.0, 3.0, 9.0), 0.3)])
def test_solves_that_fail_are_those_of_python(sampler, monkeypatch):
    target, plan = iv.Target(iv.LogDensity(ending, True, dimension=3)), Plan(200, 0, 1, 3, 2, check_gradient=False)
    monkeypatch.setattr(compiled_blocks, "PATIENCE", math.inf)
    wanted = drawn(begun(sampler, plan, target))
    assert wanted[1]["failed_solves"]["target"] > 3
    monkeypatch.setattr(compiled_blocks, "PATIENCE", 0.0)
    found = drawn(begun(sampler, plan, target))
    check_same(found, wanted)
    assert set(found[2]) == {"compiled"}


def test_what_a_density_raises_is_what_python_says(monkeypatch):
    target = iv.Target(iv.LogDensity(raising, True, dimension=3))
    said = []
    for patience in (math.inf, 0.0):
        monkeypatch.setattr(compiled_blocks, "PATIENCE", patience)
        engine = begun(sgld(0.05), Plan(5000, 0, 1, 1, 2, check_gradient=False), target)
        draws = Draws(engine, 5000)
        with pytest.raises(ValueError, match="beyond the edge") as caught:
            while engine.done < engine.steps:
                engine.step(engine.steps, draws)
                draws.after_step()
        said.append((str(caught.value), draws.take().positions))
    assert said[0][0] == said[1][0] and said[0][1].shape[2] > 3
    np.testing.assert_array_equal(said[0][1], said[1][1])


@pytest.mark.parametrize("name", ["ladder of sghmc", "swaps after each step", "mams"])
def test_goes_on_from_within_a_stretch(name, compiled):
    sampler, plan = SAMPLERS[name], Plan(draws=60, warmup=0, thin=1, chains=2, seed=5)
    sampler = mams(0.3) if name == "mams" else sampler
    wanted = drawn(begun(sampler, plan))
    for steps in (17, 41):
        engine = begun(sampler, plan)
        first = Draws(engine, plan.draws)
        while engine.done < steps:
            engine.step(steps - engine.done, first)
            first.after_step()
        again = Engine(TARGET, sampler, plan)
        again.restore(serialization.decode(serialization.encode(engine.state())))
        found = drawn(again)
        np.testing.assert_array_equal(first.take().positions, wanted[0]["positions"][:, :, :steps])
        np.testing.assert_array_equal(found[0]["positions"], wanted[0]["positions"][:, :, steps:])


def test_says_why_python_makes_the_steps(compiled):
    def why(sampler, domain=(), density=TARGET.potentials):
        return drawn(begun(sampler, Plan(4, 0, 1, 2, 1), iv.Target(density, domain)))[2][0]

    assert "the domain has bounds" in why(sgld(0.05), iv.domains.Ball(np.zeros(3), 9.0))
    assert "energies are estimated" in why(sgld(0.05, estimator=iv.estimators.noisy(0.5, 1.0)))
    ladder = parallel_tempering((1.0, 2.0, 4.0), 0.1, fidelities=["finest"] * 3, scheme=adjacent())
    assert why(ladder) == "compiled"
    untyped = numba.njit(lambda x: (x.sum(), undefined_name))  # noqa: F821
    found = iv.LogDensity(untyped, True, dimension=2).compiled_energy().compiled()
    assert "numba cannot compile the density" in found.reason
