"""A run over several ranks, here threads with nothing in common: the same draws, counts and errors as alone."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import warnings

import numpy as np
import pytest
import threads

import invsamp as iv
from invsamp.engine.engine import Engine
from invsamp.engine.plan import Plan
from invsamp.parallel import carry
from invsamp.parallel.layout import Group
from invsamp.posing.adapters import with_jacobian
from invsamp.sampler import sample

TEMPERATURES = (1.0, 2.0, 4.0, 8.0)
SAMPLERS = {
    "one rung": lambda: iv.mala(),
    "fidelities": lambda: iv.relangevin(TEMPERATURES),
    "momentum": lambda: iv.Sampler([iv.Rung(t, kernel=iv.Momentum(0.3), step_size=0.05) for t in TEMPERATURES]),
    "adjusted momentum": lambda: iv.relangevin(TEMPERATURES, friction=0.3),
    "noise": lambda: iv.fast_resgld(TEMPERATURES, estimator=iv.noisy(0.3, 0.3), variance=iv.running_average()),
    "noise of one fidelity": lambda: iv.fast_resgld(
        TEMPERATURES, fidelities=[0] * 4, estimator=[iv.noisy(0.1 * k, 0.3) for k in range(4)], beyond="clip"
    ),
    "shared pilot": lambda: iv.fast_resgld(
        TEMPERATURES, estimator=iv.noisy(0.3, 0.3), fidelities=[0, 0, 1, 1], variance=iv.kernel_ridge()
    ),
    "weights": lambda: iv.multi_variance_resgld(TEMPERATURES, estimator=iv.noisy(0.3, 0.3), assume_unbiased=True),
    "minibatch": lambda: iv.resgld(
        TEMPERATURES, estimator=iv.minibatch(3), swap_energies="exact", scheme=iv.adjacent()
    ),
}


def shifted(offset, scale, error=0.0):
    def function(theta):
        return scale * (theta[:, :1] - offset) ** 2 + np.array([0.0, 0.1, 0.2, 0.3]) * theta[:, 1:]

    def jacobian(theta):
        slope = np.broadcast_to([0.0, 0.1, 0.2, 0.3], (len(theta), 4))
        return np.stack([np.repeat(2.0 * scale * (theta[:, :1] - offset), 4, axis=1), slope], axis=2)

    return with_jacobian(function, jacobian)


def posterior(**forward):
    models = forward or {"crude": shifted(0.2, 0.8), "coarse": shifted(0.1, 0.9), "fine": shifted(0.0, 1.0)}
    prior = iv.Prior(x=iv.Normal(0, 2), y=iv.Uniform(-2, 3))
    return iv.Posterior(prior, noise=iv.GaussianNoise(0.3), data=np.array([1.0, 1.1, 1.2, 1.4]), forward=models)


def digest(run):
    """Of all draws, statistics and counts, to the last bit."""
    found = hashlib.sha256()
    for k in range(run.rungs):
        found.update(np.ascontiguousarray(run.rung_theta(k)).tobytes())
    found.update(np.ascontiguousarray(run.data.sample_stats["energy"].values).tobytes())
    timed = ("seconds", "evaluation_seconds", "processes")
    counts = {name: value for name, value in run.report.items() if name not in timed}
    found.update(json.dumps(counts, sort_keys=True).encode())
    return found.hexdigest()


def differences(one, other, where="state"):
    """Where two states differ, but for the clock."""
    if isinstance(one, np.random.Generator):
        one, other = one.bit_generator.state, other.bit_generator.state
    if type(one) is not type(other):
        yield where
    elif isinstance(one, dict):
        for key in {**one, **other}:
            if not str(key).endswith("seconds"):
                yield from differences(one.get(key), other.get(key), f"{where}.{key}")
    elif isinstance(one, list | tuple) and len(one) == len(other):
        for k, parts in enumerate(zip(one, other, strict=True)):
            yield from differences(*parts, f"{where}[{k}]")
    elif dataclasses.is_dataclass(one):
        yield from differences(vars(one), vars(other), where)
    elif not np.array_equal(one, other, equal_nan=isinstance(one, float | np.ndarray)):
        yield where


def make(name, comm=None, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sample(
            posterior(),
            SAMPLERS[name](),
            comm=comm,
            **{"draws": 15, "warmup": 120, "chains": 4, "seed": 5} | settings,
            progress=False,
        )


def fixed_layout(monkeypatch, *groups, how="blocks"):
    """A layout of (rungs, ranks), whatever the costs are."""

    def plan(comm, engine, models):
        return carry._Plan(tuple(Group(range(*a), range(*b)) for a, b in groups), dict.fromkeys(engine.evaluators, how))

    monkeypatch.setattr(carry, "_plan", plan)


class TestInvariance:
    @pytest.mark.parametrize("name", SAMPLERS)
    def test_two_ranks(self, name):
        wanted = digest(make(name))
        for run in threads.run(2, lambda comm: make(name, comm)):
            assert digest(run) == wanted

    @pytest.mark.parametrize("name", ["fidelities", "shared pilot"])
    @pytest.mark.parametrize(
        "groups",
        [
            [((0, 1), (0, 1)), ((1, 2), (1, 2)), ((2, 4), (2, 3))],
            [((0, 1), (0, 1)), ((1, 2), (1, 2)), ((2, 3), (2, 3)), ((3, 4), (3, 4))],
            [((0, 2), (0, 3)), ((2, 4), (3, 5))],
            [((0, 4), (0, 3))],
        ],
        ids=["three", "four", "groups", "one group"],
    )
    def test_every_layout(self, monkeypatch, name, groups):
        fixed_layout(monkeypatch, *groups)
        wanted = digest(make(name))
        # one more than there is work for
        runs = threads.run(groups[-1][1][1] + 1, lambda comm: make(name, comm))
        assert {digest(run) for run in runs} == {wanted}

    def test_another_seed_is_told_apart(self):
        assert digest(make("fidelities")) != digest(make("fidelities", seed=6))

    def test_a_seed_of_the_systems_is_one_for_all(self):
        first, second = threads.run(2, lambda comm: make("fidelities", comm, seed=None))
        assert digest(first) == digest(second)

    def test_a_state_goes_on_under_any_layout(self, monkeypatch):
        """Saved in warm-up or after it by some ranks, restored by others."""
        settings = iv.fast_resgld(
            TEMPERATURES, estimator=iv.noisy(0.3, 0.3), fidelities=[0, 0, 1, 1], variance=iv.kernel_ridge()
        )
        plan = Plan(20, 200, 1, 4, 5)
        layouts = [[((0, 1), (0, 1)), ((1, 4), (1, 2))], [((0, 3), (0, 1)), ((3, 4), (1, 2))], [((0, 4), (0, 1))]]

        def part(state, steps):
            def work(ranks):
                engine = Engine(posterior(), settings, plan, ranks)
                engine.begin() if state is None else engine.restore(state)
                for _ in range(steps):
                    engine.step()
                return engine.state()

            return work

        def through(layout, state, steps):
            fixed_layout(monkeypatch, *layout)
            ranks = layout[-1][1][1]
            made = threads.run(
                2, lambda comm: carry.carry(comm, Engine(posterior(), settings, plan), part(state, steps))
            )
            assert ranks <= 2
            return made[0]

        state = None
        for layout, steps in zip([*layouts, layouts[0]], (90, 60, 55, 15), strict=True):
            state = through(layout, state, steps)
        whole = through(layouts[2], None, 220)
        assert list(differences(state, whole)) == []
        assert list(differences(state, through(layouts[2], None, 219)))
