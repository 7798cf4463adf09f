"""Stretches of draws of posteriors of ODE models in compiled loops are those that Python makes, to the bit."""

from __future__ import annotations

import math

import numpy as np
import pytest

import invsamp as iv
from invsamp.engine.driver.draw_buffer import Draws
from invsamp.engine.driver.engine import Engine
from invsamp.engine.ensemble import compiled_blocks
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.kernels.compiled import langevin_loop, path_loop
from invsamp.kernels.compiled.block import evaluated
from invsamp.samplers import hmc, mala, mams, parallel_tempering, sgld
from invsamp.solvers.ode import OdeModel
from invsamp.swaps.schemes import seo

TIMES = np.linspace(0.0, 6.0, 9)
#: What two runs cannot share.
OWN = {"seconds", "evaluation_seconds", "execution"}


def rhs(t, x, p):
    u, v = x
    alpha, beta, gamma, delta = p
    return (alpha - beta * v) * u, (-gamma + delta * u) * v


def growing(t, x, p):
    return (p[0] * x[0] ** 2,)


def model(method="RK45", rtol=1e-6, **settings):
    return OdeModel(rhs, ("u", "v"), ("alpha", "beta", "gamma", "delta"), method, rtol=rtol, **settings)


def observed(of=None, **settings):
    return (of or model()).observe(TIMES, settings.pop("initial", ["u0", "v0"]), t0=0.0, **settings)


def rates(**others):
    free = {
        "alpha": iv.Uniform(0.3, 1.5),
        "beta": iv.LogNormal(-3.0, 0.3),
        "gamma": iv.Uniform(0.3, 1.5),
        "delta": iv.LogNormal(-3.0, 0.3),
        "u0": iv.LogNormal(3.0, 0.3),
        "v0": iv.LogNormal(2.0, 0.3),
    }
    return iv.Prior({name: others.pop(name, value) for name, value in free.items()} | others)


def data(forward, *, missing=False):
    """Made-up data of the model's size, noisy and positive."""
    theta = {"alpha": 0.7, "beta": 0.04, "gamma": 0.8, "delta": 0.04, "u0": 20.0, "v0": 7.0, "rate": 0.75}
    y = forward(np.array([[theta[name] for name in forward.parameters]]))[0]
    y = y * np.exp(0.1 * np.random.default_rng(0).standard_normal(y.shape))
    if missing:
        y[3::4] = np.nan
    return y


def posterior(forward, noise=None, prior=None, *, missing=False):
    prior = prior or rates()
    bounded = [name for name in ("alpha", "gamma", "rate") if name in prior.shapes]
    seen, noise = data(forward, missing=missing), noise or iv.GaussianNoise(2.0)
    return iv.Posterior(prior, forward, seen, noise, transforms=dict.fromkeys(bounded, "logit"))


def with_scale():
    return posterior(observed(), iv.LogNormalNoise("sigma"), rates(sigma=iv.LogNormal(-1.0, 1.0)))


def tied():
    forward = observed(given={"alpha": "rate", "gamma": "rate", "delta": 0.04})
    prior = iv.Prior(
        rate=iv.Uniform(0.3, 1.5), beta=iv.LogNormal(-3.0, 0.3), u0=iv.LogNormal(3.0, 0.3), v0=iv.LogNormal(2.0, 0.3)
    )
    return posterior(forward, prior=prior)


def masked():
    mask = np.ones((len(TIMES), 1), dtype=bool)
    mask[::3] = False
    return posterior(observed(states=["v"], mask=mask), iv.StudentTNoise(4.0, 2.0), missing=True)


def known_start():
    free = {name: value for name, value in rates().distributions.items() if name not in ("u0", "v0")}
    return posterior(observed(initial=[20.0, "v0"]), prior=iv.Prior(free | {"v0": iv.LogNormal(2.0, 0.3)}))


CASES = {
    "RK45": lambda: posterior(observed()),
    "Taylor": lambda: posterior(observed(model("auto", 1e-9))),
    "DOP853": lambda: posterior(observed(model("DOP853", 1e-8))),
    "auto": lambda: posterior(observed(model("auto"))),
    "control of states": lambda: posterior(observed(model(error_control="states"))),
    "unknown scale": with_scale,
    "tied and given": tied,
    "mask and missing data": masked,
    "known initial value": known_start,
    "a fixed parameter": lambda: posterior(observed(), prior=rates(delta=0.04)),
}
SAMPLERS = {
    "sgld": sgld(1e-4),
    "mala": mala(1e-3),
    "hmc": hmc(1e-3, length=0.1),
    "mams": mams(1e-3, length=0.1),
    "ladder": parallel_tempering((1.0, 3.0, 9.0), 1e-3, swap_fraction=0.2),
    "swaps after each step": parallel_tempering((1.0, 3.0), 1e-4, adjusted=False, scheme=seo()),
}


def drawn(target, sampler, plan):
    """Draws of a run, its statistics and what it reports; and how its steps were made."""
    engine = Engine(target, sampler, plan)
    engine.begin()
    draws = Draws(engine, engine.plan.draws)
    while engine.done < engine.steps:
        engine.step(10**6, draws)
        draws.after_step()
    report = {name: value for name, value in engine.report().items() if name not in OWN}
    found = draws.take()
    return {"positions": found.positions} | found.statistics, report, engine.report()["execution"]


def both(monkeypatch, target, sampler, plan):
    """Draws by Python, and in loops, with the number of steps that these made."""
    monkeypatch.setattr(compiled_blocks, "PATIENCE", math.inf)
    wanted = drawn(target, sampler, plan)
    steps = []
    for module in (langevin_loop, path_loop):

        def counted(block, *others, loop=module._loop):
            made, more = loop(block, *others)
            steps.append(made)
            return made, more

        monkeypatch.setattr(module, "_loop", counted)
    monkeypatch.setattr(compiled_blocks, "PATIENCE", 0.0)
    return wanted, drawn(target, sampler, plan), sum(steps)


def check_same(found, wanted):
    assert list(found[0]) == list(wanted[0])
    for name, values in wanted[0].items():
        np.testing.assert_array_equal(found[0][name], values, err_msg=name)
    assert repr(found[1]) == repr(wanted[1])


@pytest.mark.parametrize("name", CASES)
def test_energies_are_those_of_python(name):
    potential = CASES[name]().potential()
    rng = np.random.default_rng(1)
    near = CASES[name]().to_position(CASES[name]().prior.sample(rng, 20))
    pointer = potential.compiled_energy().compiled()
    assert potential.compiled_energy().compiled() is pointer
    wanted, found = potential.parts(near, True), (np.empty(20), np.empty(near.shape), np.empty(20))
    assert evaluated(pointer.address, pointer.context, near, np.empty(near.shape), *found)
    for one, other in zip(found, wanted, strict=False):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("case", CASES)
def test_draws_are_those_of_python(case, monkeypatch):
    plan = Plan(draws=40, warmup=0, thin=2, chains=3, seed=5)
    wanted, found, steps = both(monkeypatch, CASES[case](), sgld(1e-4), plan)
    assert steps > 50 and found[2] == ["compiled"]
    check_same(found, wanted)


@pytest.mark.parametrize("name", SAMPLERS)
def test_draws_of_kernels_are_those_of_python(name, monkeypatch):
    plan = Plan(draws=60, warmup=0, thin=1, chains=2, seed=5)
    wanted, found, steps = both(monkeypatch, with_scale(), SAMPLERS[name], plan)
    assert steps > 30 and set(found[2]) == {"compiled"}
    check_same(found, wanted)
    assert all("Python" in how for how in wanted[2])


def test_products_of_another_order_have_other_bits(monkeypatch):
    """The comparison of draws sees a change of the last bit of a gradient."""
    plan = Plan(draws=30, warmup=0, thin=1, chains=2, seed=5)
    wanted = drawn(CASES["RK45"](), sgld(1e-4), plan)
    from invsamp.solvers.ode.model import observation_base

    def multiply(cotangent, jacobian, out):
        out[:] = np.matmul(cotangent[:, None, ::-1], jacobian[:, ::-1])[:, 0]

    monkeypatch.setattr(observation_base, "multiply", multiply)
    monkeypatch.setattr(compiled_blocks, "PATIENCE", math.inf)
    found = drawn(CASES["RK45"](), sgld(1e-4), plan)
    np.testing.assert_allclose(found[0]["positions"], wanted[0]["positions"], rtol=1e-6)
    with pytest.raises(AssertionError):
        check_same(found, wanted)


@pytest.mark.parametrize("method", ["RK45", "auto"])
def test_solves_that_fail_are_those_of_python(method, monkeypatch):
    forward = OdeModel(growing, ("x",), ("p",), method).observe(np.linspace(0.0, 1.0, 5), ["x0"])
    prior = iv.Prior(p=iv.LogNormal(-0.5, 0.5), x0=iv.LogNormal(0.0, 0.3))
    target = iv.Posterior(prior, forward, np.array([1.0, 1.1, 1.2, 1.4, 1.6]), iv.LogNormalNoise(1.0))
    plan = Plan(draws=300, warmup=0, thin=1, chains=2, seed=4, check_gradient=False)
    wanted, found, steps = both(monkeypatch, target, sgld(0.05), plan)
    check_same(found, wanted)
    assert found[2] == ["compiled"]
    assert wanted[1]["failed_solves"]["fine" if "fine" in wanted[1]["failed_solves"] else "model"] > 3
    assert 10 < steps < 300


def timed(t, x, p):
    return (-p[0] * x[0] * (t < 1.0),)


def stepping(t, x, p):
    return (-p[0] if x[0] > 1.0 else -2.0 * p[0],)


def decaying(t, x, p):
    return (-p[0] * x[0],)


def decay(function=decaying, initial=("x0",), **settings):
    observing = {name: settings.pop(name) for name in ("of",) if name in settings}
    return OdeModel(function, ("x",), ("p",), **settings).observe(
        np.linspace(0.5, 2.0, 4), list(initial), t0=0.0, **observing
    )


OBSTACLES = {
    "solved by Rodas5P": lambda: decay(method="Rodas5P"),
    "solved by LSODA": lambda: decay(method="LSODA"),
    "in several threads": lambda: decay(threads=2),
    "events, doses, breakpoints or switches": lambda: decay(breakpoints=[1.0]),
    "breakpoints or switches": lambda: decay(doses=[(1.0, {"x": 1.0})]),
    "doses, breakpoints or switches": lambda: decay(timed),
    "may jump": lambda: decay(stepping),
    "functions of the states": lambda: decay(of=["2 * x"]),
    "formulas or functions": lambda: decay(initial=["2 * x0"]),
    "is no compiled function, but a": lambda: iv.with_jacobian(*linear()),
}


def linear():
    slope = np.arange(1.0, 9.0).reshape(4, 2)
    return lambda theta: theta @ slope.T, lambda theta: np.repeat(slope[None], len(theta), axis=0)


@pytest.mark.parametrize("reason", OBSTACLES)
def test_says_why_python_makes_the_steps(reason, monkeypatch):
    monkeypatch.setattr(compiled_blocks, "PATIENCE", 0.0)
    forward = OBSTACLES[reason]()
    prior = iv.Prior(p=iv.LogNormal(0.0, 0.1), x0=iv.LogNormal(0.0, 0.1))
    target = iv.Posterior(prior, forward, np.full(4, 0.5), iv.GaussianNoise(1.0))
    assert reason in said(target)


def said(target):
    (how,) = drawn(target, sgld(1e-4), Plan(draws=4, warmup=0, thin=1, chains=2, seed=1))[2]
    assert how.startswith("Python: ")
    return how


def test_says_which_part_of_a_posterior_has_no_loop(monkeypatch):
    monkeypatch.setattr(compiled_blocks, "PATIENCE", 0.0)
    prior, seen = iv.Prior(p=iv.LogNormal(0.0, 0.1), x0=iv.LogNormal(0.0, 0.1)), np.full(4, 0.5)
    correlated = iv.CorrelatedGaussianNoise(np.eye(4)) if hasattr(iv, "CorrelatedGaussianNoise") else None
    assert correlated is None or "the noise has no compiled loop" in said(
        iv.Posterior(prior, decay(), seen, correlated)
    )
    bounded = iv.Prior(p=iv.Uniform(0.5, 2.0), x0=iv.LogNormal(0.0, 0.1))
    assert "the domain has bounds" in said(iv.Posterior(bounded, decay(), seen, iv.GaussianNoise(1.0)))
    joint = iv.Prior({("p", "x0"): iv.MultivariateNormal(np.ones(2), 0.01 * np.eye(2))})
    assert "the prior, its coordinates" in said(iv.Posterior(joint, decay(), seen, iv.GaussianNoise(1.0)))
