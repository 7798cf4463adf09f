"""`iv.sample(posterior)` and nothing else: what it chooses, what it says, and that a missed mode is never silent."""

from __future__ import annotations

import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from targets import gaussian

import invsamp as iv
from invsamp.diagnostics.limits import LEAST_ESS_PER_DRAW
from invsamp.domains import Box, Unbounded
from invsamp.engine.automatic import kernel_selection
from invsamp.engine.automatic.evaluation_budget import EvaluationBudget
from invsamp.engine.automatic.kernel_selection import LOOKS, KernelSelection
from invsamp.engine.automatic.phases import Phases
from invsamp.engine.driver import checkpoint_loop, serialization
from invsamp.engine.driver.engine import Engine
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.engine.mode_search import multistart
from invsamp.engine.mode_search.multistart import ModeSearchResult, search_modes
from invsamp.evaluate.requests import Estimate, answered
from invsamp.kernels.mode_jumps import ModeJumps
from invsamp.ladder.automatic import LENGTHS, Automatic
from invsamp.modes.minima import Minima
from invsamp.problems.mixtures import GaussianMixture
from invsamp.storage.state import read_state


def sampled(posterior, **settings):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = iv.sample(posterior, **({"progress": False, "seed": 1, "draws": 500} | settings))
    return run, [str(warning.message) for warning in caught]


def same(b):
    return b


def unit(b):
    return np.broadcast_to(np.eye(b.shape[1]), (len(b), b.shape[1], b.shape[1]))


def warned(report):
    draws = np.random.default_rng(0).standard_normal((1, 4, 1000, 1))
    return iv.Run.from_arrays(None, {"x": ()}, draws, {}, report).warnings()


def linear(d=4):
    model = iv.with_jacobian(same, unit)
    return iv.Posterior(iv.Prior(b=iv.Normal(np.zeros(d), 1.0)), model, np.ones(d), iv.GaussianNoise(0.1))


def two_modes(x):
    """.3 N(-5, 1) + .7 N(5, 1) over N(0, 5^2), as a log-likelihood."""
    logs = np.log([0.3, 0.7]) - 0.5 * (x[:, :1] - [-5.0, 5.0]) ** 2
    top = logs.max(axis=1, keepdims=True)
    shares = np.exp(logs - top)
    total = shares.sum(axis=1)
    slope = -(shares * (x[:, :1] - [-5.0, 5.0])).sum(axis=1) / total + x[:, 0] / 25.0
    return top[:, 0] + np.log(total) + 0.5 * x[:, 0] ** 2 / 25.0, slope[:, None]


def bimodal():
    return iv.Posterior(
        iv.Prior(x=iv.Normal(0.0, 5.0)),
        log_likelihood=iv.LogDensity(lambda x: two_modes(x)[0], lambda x: two_modes(x)[1]),
    )


def funnel(x):
    v, rest = x[:, 0], x[:, 1:]
    squares = (rest**2).sum(axis=1) * np.exp(-v)
    slope = np.column_stack([v / 9.0 - 0.5 * squares + 4.5, rest * np.exp(-v)[:, None]])
    return v**2 / 18.0 + 0.5 * squares + 4.5 * v, slope


@pytest.fixture(scope="module")
def of_two_modes():
    """A run of eight chains, and what it warned of."""
    return sampled(bimodal(), chains=8)


SPIKE = {"draws": 10, "warmup": 100, "start": np.full(10, 0.3), "check_gradient": False}


@pytest.fixture(scope="module")
def started_at_the_spike():
    """A run in Neal's funnel from its highest density, which has no mass, and its warnings."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Phases, "_heavier_starts", lambda *_: False)
        return sampled(iv.Target(iv.extending.FunctionPotential(funnel, 10)), **SPIKE)


def move_once(choice):
    choice.add(np.zeros((4, 3)), np.zeros(4))
    choice.add(np.ones((4, 3)), np.zeros(4))


class TestWhatIsChosen:
    def test_one_kernel_where_there_is_one_mode(self):
        run, messages = sampled(linear())
        assert messages == []
        assert run.report["kernels"] == ["mams"]
        assert "found one mode: one kernel, Metropolis-adjusted" in run.report["decisions"][0]
        assert run.report["decisions"][1].startswith(f"a pilot run of {LOOKS[0]} steps passed")
        assert all(line in repr(run) for line in run.report["decisions"])
        assert run.report["modes"]["mode_occupancy"] == [2000]

    def test_its_evaluations_are_reported_and_bounded(self):
        run, _ = sampled(linear())
        spent, total = run.report["spent"], sum(run.report["evaluations"].values())
        parts = ("descents", "looks", "failed", "warm-up", "draws")
        assert sum(spent[name] for name in parts) == total
        assert 0 < spent["descents"] < spent["descents_most"] == 5000
        assert spent["descents"] + spent["looks"] < spent["draws"]
        assert f"draws {spent['draws']:,}" in repr(run)

    def test_descents_keep_to_their_budget(self):
        """In a long bent valley, which takes hundreds each."""

        def valley(x):
            apart = x[:, 1:] - x[:, :-1] ** 2
            gradient = np.zeros_like(x)
            gradient[:, :-1] = 2.0 * (x[:, :-1] - 1.0) - 400.0 * x[:, :-1] * apart
            gradient[:, 1:] += 200.0 * apart
            return 100.0 * np.square(apart).sum(axis=1) + np.square(x[:, :-1] - 1.0).sum(axis=1), gradient

        rng, asked = np.random.default_rng(1), []
        asking = search_modes(("one",), 3.0 * rng.standard_normal((16, 10)), np.full(10, 3.0), Unbounded(), budget=1600)

        def answer(requests):
            asked.append(sum(len(request.position) for request in requests))
            return tuple(Estimate(*valley(request.position)) for request in requests)

        answered(asking, answer)
        assert 1000 < sum(asked) < 1600 + 200  # Hessians come on top

    @pytest.mark.parametrize(("cells", "wanted"), [(12, 64), (1, 16)])
    def test_more_descents_where_many_came_to_minima_of_their_own(self, cells, wanted):
        """Of twelve wells one alone has the mass: sixteen descents miss it one time in four, as some of these would."""
        depths = np.concatenate([[30.0], np.linspace(0.0, 15.0, cells - 1)])

        def wells(x):
            well = np.clip(np.floor(x[:, 0]), 0, cells - 1).astype(int)
            apart = x[:, 0] - well - 0.5
            energy = 200.0 * apart**2 - depths[well] + 0.5 * np.square(x[:, 1:]).sum(axis=1)
            return energy, np.column_stack([400.0 * apart, x[:, 1:]])

        def answer(requests):
            return tuple(Estimate(*wells(request.position)) for request in requests)

        missed, few, descents = 0, 0, list[int]()
        scale, domain = np.array([0.05, *np.ones(7)]), Box([0.0] + 7 * [-9.0], [cells] + 7 * [9.0])
        for seed in range(15):
            starts = np.random.default_rng([seed]).uniform(size=(64, 8)) * [cells, *np.ones(7)]
            found = answered(
                search_modes(("one",), starts, scale, domain, lambda share: np.empty((0, 8)), 5000), answer
            )
            missed += found.minima.energies.min() > -29.0
            few += not (np.floor(starts[:16, 0]) == 0).any()
            descents.append(found.descents)
        assert np.median(descents) == wanted
        assert missed <= 1
        assert cells == 1 or few >= 3

    @pytest.mark.parametrize("traps", [4, 10])
    def test_more_descents_where_few_come_to_the_lowest(self, traps):
        """Not where some end high up, each in a trap of its own, and most at the bottom."""

        def bowl(x):
            near = np.where(x[:, 0] > 10.0, 10.0 * np.round(0.1 * x[:, 0]), 0.0)
            apart = x - near[:, None] * np.eye(8)[0]
            return 0.5 * np.square(apart).sum(axis=1) + 10.0 * near, apart

        starts = np.random.default_rng(1).standard_normal((64, 8))
        starts[:traps, 0] = 20.0 + 10.0 * np.arange(traps)

        def answer(requests):
            return tuple(Estimate(*bowl(request.position)) for request in requests)

        found = answered(search_modes(("one",), starts, np.ones(8), Unbounded()), answer)
        assert found.descents == (16 if traps == 4 else 64)

    @pytest.mark.parametrize("failed", [0, 200_000])
    def test_longer_paths_are_tried_where_draws_pay_for_it(self, failed):
        solved = SimpleNamespace(evaluations=0)
        evaluation_budget = EvaluationBudget(Plan(1000, 500, 1, 4, 1), {"one": solved})
        for _ in range(bool(failed)):
            solved.evaluations += failed
            evaluation_budget.failed()
        solved.evaluations += 5_000
        evaluation_budget.warmed()
        solved.evaluations += 4_000  # 20 for each of 200 steps
        assert evaluation_budget.affords(700, 200, 3.0) == (not failed)

    @pytest.mark.parametrize(
        ("draws", "looks"), [(10, [200]), (400, [200]), (1000, [200, 400]), (2000, [200, 400, 800])]
    )
    def test_how_often_a_trial_is_judged(self, draws, looks):
        """Within half of the run, so that what passes selects few draws."""
        choice, rng, found = (
            KernelSelection(Automatic().stages(3, 1), 3, True, draws=draws),
            np.random.default_rng(1),
            [],
        )
        while not choice.over:
            x = rng.standard_normal((4, 3))
            choice.add(x, 0.5 * np.square(x).sum(axis=1))
            if choice.complete:
                found.append(choice.steps)
                assert choice.judged(3, lambda times: True)
        assert found == looks

    def test_draws_that_keep_no_promise_are_chosen_again(self, monkeypatch):
        choice = KernelSelection(Automatic().stages(3, 1), 3, True, draws=2000)
        move_once(choice)
        for found, passes in (((1.01, 0.5), True), ((1.01, LEAST_ESS_PER_DRAW), True), ((1.01, 0.09), False)):
            monkeypatch.setattr(choice, "_measured", lambda found=found: found)
            assert choice.judged(3, lambda times: True) == passes
        assert choice.stage == 1 and "were worse than the pilot run" in choice.decisions[-1]

    def test_chains_that_disagree_have_too_low_an_ess(self):
        """No limit of R-hat is needed for that: means that are 30% of an sd apart do."""
        for shift, passes in ((0.0, True), (0.3, False)):
            choice, rng = KernelSelection(Automatic().stages(3, 1), 3, True, draws=2000), np.random.default_rng(2)
            for _ in range(LOOKS[0]):
                choice.add(rng.standard_normal((4, 3)) + shift * np.array([[-1.0], [1.0], [-1.0], [1.0]]), np.zeros(4))
            choice.judged(3, lambda times: True)
            assert (choice.stage == 0) == passes

    def test_what_the_pilot_run_promised_is_kept_and_checked(self, monkeypatch):
        """A curved ridge, with a very low ESS per draw, and a pilot run that missed it."""

        def ridge(z):
            x, away = z[:, 0], z[:, 1] - z[:, 0] ** 2
            gradient = np.column_stack([(x - 1.0) / 10.0 - 20.0 * x * away, 10.0 * away])
            return (x - 1.0) ** 2 / 20.0 + 5.0 * away**2, gradient

        easy, messages = sampled(linear())
        assert 0.12 <= easy.report["pilot"]["promised"] <= 1.0 and easy.report["pilot"]["steps"] == LOOKS[0]
        monkeypatch.setattr("invsamp.ladder.automatic.MOST_MAPPED", 1)
        monkeypatch.setattr(KernelSelection, "_measured", lambda self, *chains: (1.01, 0.5))
        run, bent = sampled(iv.Target(iv.extending.FunctionPotential(ridge, 2)))
        promise = "the pilot run of 200 steps promised an effective sample size (ESS) per draw of 0.5"
        assert any(promise in text for text in bent)
        assert promise in repr(run)
        assert not any("pilot run" in text for text in messages)

    def test_in_one_dimension_a_kernel_that_can_be(self):
        assert sampled(linear(1))[0].report["kernels"] == ["hmc"]

    def test_jumps_between_modes(self, of_two_modes):
        run, _ = of_two_modes
        assert "found 2 modes, of weights 0.7, 0.3 by their Gaussians" in run.report["decisions"][0]
        assert "with jumps between 2 modes" in run.report["decisions"][0]
        assert run.report["decisions"][1].startswith(f"a pilot run of {LOOKS[0]} steps passed")
        assert 0.6 < (run.draws("x") > 0.0).mean() < 0.8
        assert run.data.sample_stats["jumped"].values.mean() > 0.3

    def test_a_ladder_where_no_jump_passes(self, monkeypatch):
        monkeypatch.setattr(kernel_selection, "ModeJumps", lambda kernel, *modes: kernel)
        run, _ = sampled(bimodal(), chains=8)
        assert run.report["decisions"][1].endswith("a ladder from the prior to the posterior")
        assert run.report["ladder"]["hottest_is_prior"]
        assert 0.5 < (run.draws("x") > 0.0).mean() < 0.85

    def test_a_narrow_mode_among_wide_ones(self):
        """Of widths .1 and 1 in two dimensions: a descent in 1,500 ends in the narrow one."""
        mixture = GaussianMixture((1.0, 1.0, 1.0), ((4.0, 0.0), (-4.0, 4.0), (-4.0, -4.0)), (0.1, 1.0, 1.0))

        def likelihood(x):
            energy, gradient = mixture.energy_and_gradient(x)
            return (x**2).sum(axis=1) / 50.0 - energy, x / 25.0 - gradient

        posterior = iv.Posterior(
            iv.Prior(x=iv.Normal(0.0, 5.0, shape=2)), log_likelihood=iv.LogDensity(likelihood, True)
        )
        run, messages = sampled(posterior, draws=1000)
        assert "draws of the prior found 3 modes" in run.report["decisions"][0]
        assert min(run.report["modes"]["mode_occupancy"]) > 800
        assert messages == []

    def test_a_point_in_the_basin_of_a_narrow_mode_leads_there(self, monkeypatch):
        """At five of its sds, where energies alone are those of the wide one's slope, and a long step passes it by."""
        mixture = GaussianMixture((0.5, 0.5), ((-3.0, 0.0), (3.0, 0.0)), (1.0, 0.1))

        def answer(requests):
            (request,) = requests
            return (Estimate(*mixture.energy_and_gradient(request.position)),)

        def found(seed):
            rng = np.random.default_rng(seed)
            direction = rng.standard_normal(2)
            at = [3.0, 0.0] + 0.5 * direction / np.linalg.norm(direction)

            def more(share):
                points = 5.0 * rng.standard_normal((round(share * 8000), 2))
                return np.vstack([points[np.linalg.norm(points - [3.0, 0.0], axis=1) > 2.0], at])

            starts = np.array([-3.0, 0.0]) + rng.standard_normal((16, 2))
            asking = search_modes(("one",), starts, np.full(2, 5.0), Unbounded(), more, 8000)
            return len(answered(asking, answer).heavy)

        assert sum(found(seed) == 2 for seed in range(20)) >= 18
        monkeypatch.setattr(multistart, "below_known", lambda *_: np.empty(0, dtype=int))
        assert sum(found(seed) == 2 for seed in range(20)) < 18

    def test_a_mode_beside_a_minimum_of_no_weight_at_a_bound(self):
        """A slope of mass 6e-6 ends in a minimum at the bound, along which it is flat."""
        mixture = GaussianMixture((0.5, 0.5), ((5.0, 5.0), (-5.0, -5.0)), (0.1, 1.0))

        def likelihood(x):
            energy, gradient = mixture.energy_and_gradient(x)
            sloped = np.logaddexp(-energy, x[:, 0] - 25.0)
            share = np.exp(-energy - sloped)[:, None]
            return sloped, -share * gradient + (1.0 - share) * [1.0, 0.0]

        prior = iv.Prior(x=iv.Uniform(-10.0, 10.0, shape=2))
        posterior = iv.Posterior(prior, log_likelihood=iv.LogDensity(likelihood, True))
        counts = []
        for seed in range(1, 5):
            engine = Engine(posterior, Automatic(), Plan(1000, 500, 1, 4, seed))
            engine.begin()
            found = engine.report()["modes"]
            counts.append(np.count_nonzero(np.array(found["weights"]) > 0.4))
            assert "with jumps" in engine.report()["decisions"][0] or counts[-1] < 2
        assert np.count_nonzero(np.array(counts) == 2) >= 3

    @pytest.mark.parametrize(("known", "jumps"), [(3, True), (2, True), (1, False), (0, False)])
    def test_jumps_need_two_modes_of_known_mass(self, known, jumps, monkeypatch):
        """Or a trial that failed without: minima of no known mass are points of a ridge."""
        has = np.arange(3) < known
        extents, centers = np.broadcast_to(np.eye(2), (3, 2, 2)), 9.0 * np.arange(6.0).reshape(3, 2)
        minima = Minima(centers, np.zeros(3), extents, extents, has, ~has, np.ones(3, dtype=int))
        choice = KernelSelection(Automatic().stages(2, 1), 2, True)
        choice.choose(ModeSearchResult(minima, 16, 100, 0, 0, 0, np.zeros(2), 0, 0.0, 5), 100, ["x", "y"])
        assert isinstance(choice.sampler.rungs[0].kernel, ModeJumps) == choice.jumping == jumps
        assert ("as on a ridge" in choice.report()[0]) == (known < 3)
        move_once(choice)
        monkeypatch.setattr(choice, "_measured", lambda: (1.4, 0.05))
        assert not choice.judged(2, lambda times: True)
        assert len(choice.sampler.rungs[0].kernel.centers) == 3 and choice.stage == (1 if jumps else 0)

    def test_an_alias_beside_a_bound(self):
        """Two frequencies fit; at the bound is a minimum of weight 1e-7. Jumps are kept, and no ladder is needed."""
        t = np.array([0.0, 1.02, 1.97, 3.01, 4.03, 4.98, 6.02, 6.99])

        def model(theta):
            a, w, k = theta.T[:, :, None]
            return a * np.exp(-k * t) * np.cos(w * t)

        def jacobian(theta):
            a, w, k = theta.T[:, :, None]
            decay = np.exp(-k * t)
            slow, fast = decay * np.cos(w * t), decay * np.sin(w * t)
            return np.stack([slow, -a * t * fast, -a * t * slow], axis=2)

        data = model(np.array([[1.0, 2.0, 0.1]]))[0] + 0.2 * np.random.default_rng([3]).standard_normal(8)
        prior = iv.Prior(a=iv.Normal(1.0, 1.0), w=iv.Normal(3.0, 4.0), k=iv.HalfNormal(0.5))
        forward, bounds = iv.with_jacobian(model, jacobian), [iv.constraint("w > 0"), iv.constraint("w < 7.9")]
        run, messages = sampled(iv.Posterior(prior, forward, data, iv.GaussianNoise(0.2), domain=bounds), draws=1000)
        assert run.report["kernels"] == ["mams with jumps"]
        assert sum(run.report["evaluations"].values()) < 40_000
        assert all(run.report["modes"]["by_laplace"])  # the one at the bound by a Gaussian that this cuts
        assert messages == []

    def test_a_ridge_needs_no_ladder(self):
        """Descents end beside it, where it may look bent: then a trial shows that chains pass along it."""

        def ring(x):
            radius = np.linalg.norm(x, axis=1)
            return 2.0 * (radius - 5.0) ** 2, (4.0 * (radius - 5.0) / radius)[:, None] * x

        run, _ = sampled(iv.Target(iv.extending.FunctionPotential(ring, 2)), draws=20, warmup=100)
        found, *more = run.report["decisions"]
        flat = "minima that are flat in some direction, as on a ridge: one" in found
        # its bend, of which little is known, gives all weight to one of them at some seeds
        assert flat or "a pilot run shows whether chains pass between them" in found or "found one mode, and" in found
        assert " passed" in more[-1] and not any("ladder" in line for line in run.report["decisions"])

    def test_chains_at_a_minimum_without_mass_begin_again(self, started_at_the_spike):
        run, messages = started_at_the_spike
        assert any("chains begin at starting points, not at minima" in line for line in run.report["decisions"])
        assert any("the density is highest where there is almost no mass" in text for text in messages)

    def test_chains_do_not_begin_at_a_minimum_without_mass(self):
        """That of the funnel: there is more mass around the starts."""
        engine = Engine(
            iv.Target(iv.extending.FunctionPotential(funnel, 10)),
            Automatic(),
            Plan(500, 500, 1, 4, 1, stops_early=True),
        )
        engine.begin()
        assert "chains begin at starting points, around which there is more mass" in engine.report()["decisions"][0]
        assert np.median(engine.rungs[0].estimate.energy) > -30.0
        engine = Engine(linear(), Automatic(), Plan(500, 500, 1, 4, 1, stops_early=True))
        engine.begin()
        assert "more mass" not in engine.report()["decisions"][0]

    def test_ends_on_a_ring_are_no_modes_by_chance(self):
        """Some look bent along it, by rounding: they must not take the weight of those that look flat."""

        def ring(x):
            radius = np.linalg.norm(x, axis=1)
            return 50.0 * (radius - 5.0) ** 2, (100.0 * (radius - 5.0) / radius)[:, None] * x

        flat = []
        for seed in range(1, 7):
            report = looked(iv.Target(iv.extending.FunctionPotential(ring, 2)), seed)
            flat.append("minima that are flat in some direction, as on a ridge" in report["decisions"][0])
            weights = np.array(report["modes"]["weights"])
            assert not flat[-1] or weights.max() < 5.0 * weights.min()
            assert report["spent"]["descents"] + report["spent"]["looks"] < 8000
        assert np.count_nonzero(flat) >= 5

    def test_longer_paths_along_a_banana(self, monkeypatch):
        monkeypatch.setattr("invsamp.ladder.automatic.MOST_MAPPED", 1)

        def banana(z):
            x, y = z.T
            apart = y - x**2
            energy = 0.05 * (x - 1.0) ** 2 + 0.5 * apart**2 / 0.25
            return energy, np.stack([0.1 * (x - 1.0) - 8.0 * x * apart / 1.0, 4.0 * apart], axis=1)

        run, _ = sampled(iv.Target(iv.extending.FunctionPotential(banana, 2)), draws=20, warmup=100)
        lines = run.report["decisions"]
        assert "failed" in lines[1] and "times as long" in lines[1]

    @pytest.mark.parametrize(("worst", "modes", "ladder"), [(1.3, 1, False), (1.8, 1, True), (1.3, 2, True)])
    def test_chains_that_are_only_slow_need_no_ladder(self, monkeypatch, worst, modes, ladder):
        """Of one mode, in which they meet again and again: the run goes on with what it has."""
        choice = KernelSelection(Automatic().stages(3, 1), 3, True)
        choice._modes = modes
        move_once(choice)
        monkeypatch.setattr(choice, "_measured", lambda: (1.4, 0.05))
        assert not choice.judged(3, lambda times: times <= 3)
        move_once(choice)
        monkeypatch.setattr(choice, "_measured", lambda: (worst, 0.02))
        assert choice.judged(3, lambda times: False) == choice.over == (not ladder)
        assert ("a ladder" in choice.report()[-1]) == choice.last == ladder  # and no trial is under way
        assert choice.stage == (3 if ladder else 1) and choice.failed == 1 + ladder

    def test_chains_that_begin_again_at_starts_have_a_whole_warm_up(self, monkeypatch):
        """Also where it had been made once more before: later results belong to another distribution."""
        choice = KernelSelection(Automatic().stages(3, 1), 3, True)
        choice._lowest = -1000.0
        move_once(choice)
        monkeypatch.setattr(choice, "_measured", lambda: (1.4, 0.05))
        assert not choice.judged(3, lambda times: True)
        assert not choice.led

    def test_coarse_fidelities_lead(self):
        one = linear()
        model = one.forward["model"]
        costs = {"coarse": 1.0, "fine": 1.0}  # no correction of the coarse one pays
        both = iv.Posterior(one.prior, {"coarse": model, "fine": model}, one.data, one.noise, costs=costs)
        report = sampled(both)[0].report
        assert report["evaluations"]["coarse"] > 3 * 16
        assert report["fidelities"] == ["fine"]

    def test_it_prints_and_compares(self):
        assert str(Automatic()) == "chosen by optimizations and pilot runs"
        assert Automatic() == Automatic()
        assert [stage.rungs[0].kernel.length for stage in Automatic().stages(3, 1)[:-1]] == list(LENGTHS)


@pytest.fixture
def first_fails(monkeypatch):
    """Of whatever is sampled the first trial fails."""
    measured = KernelSelection._measured
    monkeypatch.setattr(
        KernelSelection, "_measured", lambda self, *chains: measured(self, *chains) if self.failed else (1.2, 0.001)
    )


def steps_of(posterior, plan):
    """Positions (chains, d) of the cold rung after each step of a run, and the run at its end."""
    engine, found = Engine(posterior, Automatic(), plan), []
    engine.begin()
    while engine.done < engine.steps:
        engine.step()
        found.append(engine.rungs[0].position.copy())
    return np.array(found), engine


@pytest.fixture
def killed_on_trial(monkeypatch):
    """A context in which a run is killed at so many steps of its trials."""

    @contextmanager
    def killed(steps):
        add, left = KernelSelection.add, [steps]

        def fragile(self, *found):
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt
            add(self, *found)

        with monkeypatch.context() as patched:
            patched.setattr(KernelSelection, "add", fragile)
            yield

    return killed


PLAN = Plan(draws=220, warmup=500, thin=2, chains=4, seed=1, stops_early=True)
SETTINGS = {"draws": PLAN.draws, "thin": PLAN.thin}


class TestDrawsOfATrial:
    """They are the first ones of a run that is long enough where it passes; where it fails nothing of it is left."""

    def test_they_are_kept(self):
        positions, engine = steps_of(linear(), PLAN)
        run, _ = sampled(linear(), **SETTINGS)
        assert run.report["warmup"] == engine.warmed < 500
        assert len(positions) == engine.warmed + 440
        np.testing.assert_array_equal(run.theta, positions[engine.warmed + 1 :: 2].swapaxes(0, 1))
        spent, before = run.report["spent"], sum(run.report["warmup_evaluations"].values())
        assert sum(run.report["evaluations"].values()) - before == spent["draws"]

    @pytest.mark.parametrize("segment", [7, None])
    def test_not_of_one_that_fails(self, first_fails, segment, tmp_path):
        positions, engine = steps_of(linear(), PLAN)
        run, _ = sampled(linear(), **SETTINGS, directory=tmp_path / "run", segment=segment)
        assert run.report["decisions"][1].startswith("a pilot run of 200 steps failed")
        np.testing.assert_array_equal(run.theta, positions[engine.warmed + 1 :: 2].swapaxes(0, 1))
        assert run.report["modes"]["mode_occupancy"] == [4 * 220]
        np.testing.assert_array_equal(sampled(linear(), **SETTINGS)[0].theta, run.theta)
        entries = read_state(tmp_path / "run")[0].segments
        assert sum(entry.count for entry in entries) == 220
        assert {file.name for file in (tmp_path / "run").glob("segment-*")} == {entry.name for entry in entries}

    @pytest.mark.parametrize("killed", [150, 250], ids=["in one that fails", "in one that passes"])
    def test_the_same_after_a_kill(self, first_fails, killed, killed_on_trial, tmp_path):
        """Segments are there by then, of draws that will not stand."""
        whole, _ = sampled(linear(), **SETTINGS)
        with killed_on_trial(killed), pytest.raises(KeyboardInterrupt):
            sampled(linear(), **SETTINGS, directory=tmp_path / "run", segment=7)
        there = iv.load(tmp_path / "run")
        assert there.theta.shape[1] > 0
        assert there.report["decisions"][-1].startswith("a pilot run is under way")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            again = iv.resume(tmp_path / "run", linear(), progress=False)
        np.testing.assert_array_equal(again.theta, whole.theta)
        assert again.report["modes"] == whole.report["modes"]

    @pytest.mark.parametrize(("draws", "thin", "kept"), [(399, 1, False), (400, 1, True), (200, 2, True)])
    def test_not_of_a_run_that_is_hardly_longer(self, draws, thin, kept):
        engine = Engine(linear(), Automatic(), Plan(draws, 500, thin, 4, 1, stops_early=True))
        engine.begin()
        while not engine.phases.choice.steps:
            engine.step()
        assert engine.drawn == (1 if kept else 0)
        while engine.warming:
            engine.step()
        assert engine.drawn == (LOOKS[0] if kept else 0)


class TestItIsARun:
    def test_the_same_draws_by_another_evaluator_and_in_a_directory(self, tmp_path):
        posterior = linear()
        alone = sampled(posterior, draws=60)[0].theta
        with ThreadPoolExecutor(2) as pool:
            np.testing.assert_array_equal(sampled(posterior, draws=60, executor=pool)[0].theta, alone)
        kept, _ = sampled(posterior, draws=60, directory=tmp_path / "run", segment=11)
        np.testing.assert_array_equal(kept.theta, alone)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            more = iv.resume(tmp_path / "run", posterior, draws=80, progress=False)
        np.testing.assert_array_equal(more.theta[:, :60], alone)
        assert more.report["modes"]["mode_occupancy"] == [4 * 80]

    @pytest.mark.parametrize("jumps", [True, False], ids=["jumps", "ladder"])
    @pytest.mark.parametrize(
        "stop",
        [20, pytest.param(450, marks=pytest.mark.slow), 700, pytest.param(900, marks=pytest.mark.slow)],
        ids=["warm-up", "later", "ladder", "much later"],
    )
    def test_goes_on_after_a_kill(self, stop, jumps, tmp_path, monkeypatch):
        if not jumps:
            monkeypatch.setattr(kernel_selection, "ModeJumps", lambda kernel, *modes: kernel)
        plan = Plan(draws=20, warmup=300, thin=1, chains=4, seed=1, stops_early=True)
        one = Engine(bimodal(), Automatic(), plan)
        one.begin()
        while one.done < stop:
            one.step()
        other = Engine(bimodal(), Automatic(), plan)
        other.restore(serialization.decode(serialization.encode(one.state())))
        for _ in range(60):
            one.step(), other.step()
        for a, b in zip(one.rungs, other.rungs, strict=True):
            np.testing.assert_array_equal(a.position, b.position)
        assert one.phases.choice.decisions == other.phases.choice.decisions

    @pytest.mark.slow  # other runs resume in less time; that these chains begin again is tested above
    @pytest.mark.parametrize("draws", [10, 2 * LOOKS[0]], ids=["few draws", "draws of the trial"])
    def test_begins_again_at_given_starts_after_a_kill(self, draws, tmp_path, killed_on_trial, monkeypatch):
        monkeypatch.setattr(Phases, "_heavier_starts", lambda *_: False)
        """Chains at a minimum without mass do; the pilot run that shows it may be after the kill, or at it."""
        target, settings = iv.Target(iv.extending.FunctionPotential(funnel, 10)), SPIKE | {"draws": draws}
        whole, _ = sampled(target, **settings)
        assert whole.report["led_astray"]
        monkeypatch.setattr(checkpoint_loop, "FIRST_SECONDS", 0.0)  # a checkpoint after each step
        with killed_on_trial(100), pytest.raises(KeyboardInterrupt):
            sampled(target, directory=tmp_path / "run", **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            again = iv.resume(tmp_path / "run", target, progress=False)
        np.testing.assert_array_equal(again.theta, whole.theta)

    def test_all_solves_are_counted(self):
        counts = []

        def function(x):
            counts.append(len(x))
            return 0.5 * (x**2).sum(axis=1), x

        run, _ = sampled(iv.Target(iv.extending.FunctionPotential(function, 3)), draws=20, check_gradient=False)
        assert run.report["evaluations"]["target"] == sum(counts)


def only(messages):
    (message,) = messages
    return message


def five_modes():
    """A ring of five, each 8 from the next, of widths .1 to 1."""
    angle = 0.4 * np.pi * np.arange(5)
    centers = 4.0 / np.sin(0.2 * np.pi) * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return GaussianMixture(5 * (0.2,), tuple(map(tuple, centers)), (0.1, 0.2, 0.4, 0.7, 1.0))


def looked(problem, seed=1):
    engine = Engine(problem, Automatic(), Plan(1000, 500, 1, 4, seed))
    engine.begin()
    return engine.report()


class TestWithoutAPrior:
    """A target says nothing of its scale: boxes around the modes are searched until none is new."""

    def test_modes_far_beyond_the_starts(self):
        """Of the starts N(0, 1) none is in a basin of the narrow ones."""
        reports = [looked(iv.Target(five_modes()), seed) for seed in range(1, 7)]
        found = [np.count_nonzero(np.array(report["modes"]["weights"]) > 0.05) for report in reports]
        assert np.count_nonzero(np.array(found) == 5) >= 5
        assert all(report["spent"]["descents"] + report["spent"]["looks"] < 8000 for report in reports)

    def test_several_modes_where_the_scale_was_guessed_are_warned_of(self):
        run, messages = sampled(iv.Target(five_modes()), draws=1000)
        assert len(messages) == 1
        assert "the target has no prior, and the scale of its starts was guessed" in messages[0]
        box = run.report["modes"]["region"]
        assert list(box) == ["theta[0]", "theta[1]"]
        assert all(low < -20.0 and high > 20.0 for low, high in box.values())
        assert f"box theta[0] {box['theta[0]'][0]:.3g} to {box['theta[0]'][1]:.3g}" in run.report["decisions"][0]

    @pytest.mark.parametrize("given", ["start", "domain"])
    def test_no_warning_where_the_region_is_known(self, given):
        rest = {"start": 8.0 * np.random.default_rng([1]).standard_normal((200, 2))}
        if given == "domain":
            rest = {"domain": Box([-9.0, -9.0], [9.0, 9.0])}
        report = looked(iv.Target(five_modes(), **rest))
        assert sum(np.array(report["modes"]["weights"]) > 0.05) > 1
        assert not report["modes"]["guessed"]
        if given == "domain":
            assert report["modes"]["region"] == {"theta[0]": [-9.0, 9.0], "theta[1]": [-9.0, 9.0]}

    @pytest.mark.parametrize("d", [2, 10])
    def test_one_mode_costs_little_and_is_not_warned_of(self, d):
        run, messages = sampled(iv.Target(gaussian(np.eye(d))), draws=1000)
        assert messages == []
        spent = run.report["spent"]
        assert spent["descents"] + spent["looks"] < 0.1 * sum(run.report["evaluations"].values())
        assert run.report["modes"]["guessed"]
        assert all(low < -20.0 and high > 20.0 for low, high in run.report["modes"]["region"].values())

    def test_the_box_is_reported_in_natural_parameters(self):
        density = iv.LogDensity(lambda x: -0.5 * np.log(x[:, 0]) ** 2 - np.log(x[:, 0]), dimension=1, gradient=gamma)
        report = looked(iv.Target(density, names=["rate"], transforms={"rate": "log"}))
        (low, high) = report["modes"]["region"]["rate"]
        assert 0.0 < low < 1e-6
        assert high > 1e6


def gamma(x):
    return -(np.log(x) + 1.0) / x


class TestWords:
    def test_a_mode_that_no_chain_visits(self):
        """All chains start together, in one of two modes: R-hat is 1."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run = iv.sample(bimodal(), iv.mala(), draws=500, seed=1, progress=False, start={"x": 5.0})
        assert run.summary()["r_hat"].max() < 1.05
        messages = [str(w.message) for w in caught]
        assert any(
            "no draw has visited a mode that optimizations from the prior found, at (-5)" in text for text in messages
        )

    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize(
        "sampler", [iv.samplers.sgld(0.05), iv.samplers.parallel_tempering(step_size=0.1), iv.pcn()], ids=str
    )
    def test_no_mode_search_was_run(self, sampler):
        """Nor does R-hat, of chains that start together and whose steps are given."""
        messages = {}
        for word, start in (("together", {"x": 5.0}), ("apart", {"x": [5.0, -5.0, 5.1, -5.1]}), ("prior", None)):
            run = iv.sample(bimodal(), sampler, draws=50, warmup=100, seed=1, progress=False, start=start)
            messages[word] = [text for text in run.warnings() if "all chains began at one point" in text]
        assert "start=iv.maximize(posterior)" in only(messages["together"])
        assert messages["apart"] == messages["prior"] == []

    def test_none_where_it_is_visited(self, of_two_modes):
        assert not any("visited" in text for text in of_two_modes[1])

    def test_an_unbounded_energy(self):
        def endless(x):
            return -3.0 * x[:, 0] + 0.5 * x[:, 1] ** 2, np.stack([np.full(len(x), -3.0), x[:, 1]], axis=1)

        target = iv.Target(iv.extending.FunctionPotential(endless, 2), names=("slope", "bowl"))
        engine = Engine(target, Automatic(), Plan(20, 100, 1, 4, 1))
        engine.begin()
        report = engine.report()
        assert "16 of 16 optimizations from starting points" in report["decisions"][0]
        assert "diverged, along slope: the posterior may be improper" in report["decisions"][0]
        assert report["descents"] == [None]  # chains are not optimized
        assert "in the direction of slope. The posterior may be improper" in warned({"modes": report["modes"]})[0]

    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_the_far_minimum_of_a_funnel_is_no_divergence(self, seed):
        """Of 50 unknowns, optimizations end short of it; what lies between has no mass."""

        def funnel_50(x):
            v, rest = x[:, 0], x[:, 1:]
            with np.errstate(over="ignore", invalid="ignore"):
                squares = (rest**2).sum(axis=1) * np.exp(-v)
                slope = np.column_stack([v / 9.0 - 0.5 * squares + 24.5, rest * np.exp(-v)[:, None]])
                return v**2 / 18.0 + 0.5 * squares + 24.5 * v, slope

        engine = Engine(
            iv.Target(iv.extending.FunctionPotential(funnel_50, 50)),
            Automatic(),
            Plan(2000, 500, 1, 4, seed, stops_early=True),
        )
        engine.begin()
        report = engine.report()
        assert "around which there is more mass" in report["decisions"][0]
        found = {name: report[name] for name in ("modes", "at_minima")}
        normal, bent = (
            {"family": "triangular", "divergence": j, "largest": [], "unmatched": 0.0} for j in (0.005, 0.2)
        )
        assert warned(found | {"coordinates": [normal]}) == []
        for text in (*warned(found), *warned(found | {"coordinates": [bent]})):
            assert text.startswith("IV-FUNNEL: the density is highest where there is almost no mass, as in the neck")

    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_a_density_that_is_unbounded_as_a_scale_tends_to_0(self, seed):
        """Five equal data of N(mu, sigma), by log sigma: their density is sigma^-5."""

        def equal(x):
            with np.errstate(over="ignore", invalid="ignore"):
                squares = 5.0 * (x[:, 0] - 1.0) ** 2 * np.exp(-2.0 * x[:, 1])
                slope = np.column_stack([5.0 * (x[:, 0] - 1.0) * np.exp(-2.0 * x[:, 1]), 5.0 - squares])
                return 5.0 * x[:, 1] + 0.5 * squares, slope

        target = iv.Target(iv.extending.FunctionPotential(equal, 2), names=("mu", "log_sigma"))
        engine = Engine(target, Automatic(), Plan(2000, 500, 1, 4, seed, stops_early=True))
        engine.begin()
        report = engine.report()
        text, *_ = warned({"modes": report["modes"], "at_minima": report["at_minima"]})
        assert text.startswith("IV-DIVERGED") and "in the direction of log_sigma" in text

    def test_a_flat_unbounded_direction(self):
        def valley(x):
            return 0.5 * x[:, 1] ** 2, np.stack([np.zeros(len(x)), x[:, 1]], axis=1)

        engine = Engine(
            iv.Target(iv.extending.FunctionPotential(valley, 2), names=("x", "bowl")),
            Automatic(),
            Plan(20, 100, 1, 4, 1),
        )
        engine.begin()
        modes = engine.report()["modes"]
        assert "x" in modes["flat"]
        apart = np.random.default_rng(0).standard_normal((1, 4, 1000, 1)) + np.arange(4.0)[:, None, None]
        messages = iv.Run.from_arrays(None, {"x": ()}, apart, {}, {"modes": modes}).warnings()
        assert "flat along x at its minimum. Without a prior or bounds there, the posterior" in messages[0]
        assert not any("flat" in text for text in warned({"modes": modes}))
        gaussian = Engine(linear(), Automatic(), Plan(20, 100, 1, 4, 1))
        gaussian.begin()
        assert gaussian.report()["modes"]["flat"] == []

    def test_draws_that_went_far_beyond_all_starts(self):
        """Nothing falls along a - b, nor is any coordinate flat by itself."""

        def valley(x):
            total = x.sum(axis=1)
            return 0.5 * total**2, np.stack([total, total], axis=1)

        target = iv.Target(iv.extending.FunctionPotential(valley, 2), names=("a", "b"))
        engine = Engine(target, Automatic(), Plan(20, 100, 1, 4, 1))
        engine.begin()
        assert engine.report()["modes"]["wandered"] == {}
        along = np.linspace(-3e5, 2e5, 4000).reshape(1, 4, 1000, 1) * [1.0, -1.0]
        engine.count(along)
        assert set(engine.report()["modes"]["wandered"]) == {"a", "b"}
        again = Engine(target, Automatic(), Plan(20, 100, 1, 4, 1))
        again.restore(serialization.decode(serialization.encode(engine.state())))
        assert again.report()["modes"] == engine.report()["modes"]
        modes = {"modes": engine.report()["modes"]}
        messages = iv.Run.from_arrays(None, {"a": (), "b": ()}, along, {}, modes).warnings()
        # starts are spread over about 1
        words = r"draws moved [1-9]e\+05 times the spread of their starts, along a, b\. The posterior is improper"
        assert re.search(words, messages[0])

    def test_shares_that_are_ten_times_off(self):
        modes = {"theta": [[1.0], [2.0]], "weights": [0.5, 0.5], "mode_occupancy": [30, 1970], "by_laplace": True}
        modes |= {"descents": 16, "unfinished": 0, "endless": 0}
        (text,) = warned({"modes": modes})
        assert "0.015 of the draws are in the mode at (1), whose weight by its Gaussian is 0.5" in text
        assert warned({"modes": modes | {"mode_occupancy": [300, 1700]}}) == []

    def test_a_lowest_minimum_to_which_few_descents_came(self):
        modes = {"weights": [1.0], "mode_occupancy": [2000], "descents": 64, "unfinished": 0, "endless": 0}
        (text,) = warned({"modes": modes | {"unseen": 0.1, "lowest_by": 1}})
        assert "1 of 64 optimizations from the prior reached the lowest minimum, while about 10% of all" in text
        assert "iv.maximize(posterior, starts=256)" in text
        assert len(warned({"modes": modes | {"unseen": 0.1, "lowest_by": 6}})) == 1
        (text,) = warned({"modes": modes | {"unseen": 0.1, "lowest_by": 1}, "led_astray": 30.0})
        assert "the density is highest where there is almost no mass" in text
        assert warned({"modes": modes | {"unseen": 0.1, "lowest_by": 7}}) == []
        assert warned({"modes": modes | {"unseen": 0.03, "lowest_by": 1}}) == []

    def test_a_likelihood_without_gradient_is_reported_before_any_solve(self):
        posterior = iv.Posterior(iv.Prior(x=iv.Normal(0.0, 5.0)), log_likelihood=lambda x: -0.5 * x[:, 0] ** 2)
        with pytest.raises(ValueError, match=r"the log density has no gradient\. Give it"):
            iv.sample(posterior, progress=False)

    def test_of_a_gaussian_there_are_none(self):
        assert sampled(iv.Target(gaussian(np.diag([1.0, 1e6]))))[1] == []
