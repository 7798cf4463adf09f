"""The table of names in docs/validation/papers/index.md: every call makes its sampler, every preset has a line."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import bent_line
import numpy as np
import pytest
import threads

import invsamp as iv
from invsamp import samplers
from invsamp.engine.driver import serialization as states
from invsamp.engine.driver.engine import Engine
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.parallel import load_balancing
from invsamp.parallel.evaluator_lifecycle import evaluated
from invsamp.parallel.mpi_evaluator import Ranks

PAGE = (Path(__file__).parents[1] / "docs" / "validation" / "papers" / "index.md").read_text()
ROWS = re.findall(r"^\| ([\w-]+) \| ([^|]+) \| `(iv\.[^`]+)` \|$", PAGE, re.MULTILINE)
CALLS = {f"{paper}: {name.strip()}": call for paper, name, call in ROWS}


def made(call):
    return eval(call, {"iv": iv})


@pytest.mark.parametrize("name", CALLS)
def test_every_call_makes_a_sampler(name):
    assert isinstance(made(CALLS[name]), iv.ladder.Sampler)


@pytest.mark.parametrize("name", CALLS)
def test_what_is_approximate_says_so_when_printed(name):
    call = CALLS[name]
    exact = (
        re.match(r"iv\.samplers\.(parallel_tempering|contour_exchange)\(", call)
        and "adjusted=False" not in call
        and "window" not in call
    )
    text = str(made(call))
    assert ("approximate" in text or "samples nothing" in text) == (not exact)


def test_why_it_is():
    for sampler, reasons in (
        (iv.mala(), ()),
        (iv.samplers.sgld(0.1), ("steps without an acceptance step",)),
        (iv.samplers.svgd(0.1), ()),  # it says so itself
        (
            iv.samplers.csgld(0.1, [1.0, 2.0, 3.0], weights="published"),
            ("steps without an acceptance step", "a target that is adapted during sampling", "the published weights"),
        ),
        (iv.samplers.contour_exchange(), ()),
        (iv.samplers.parallel_tempering((1, 2, 4), scheme=iv.swaps.deo(window=8)), ("gates of windows",)),
        (iv.samplers.parallel_tempering((1, 2), swap=iv.swaps.metropolis()), ()),  # of exact energies
        (
            iv.resgld((1, 2), 0.1, estimator=iv.estimators.noisy(0.0, 1.0), swap=iv.swaps.metropolis()),
            ("steps without an acceptance step",),
        ),
        (iv.samplers.parallel_tempering((1, 2), boundary="project"), ("moves at bounds that are not reflected",)),
        (
            iv.resgld(
                (1, 2), 0.1, estimator=iv.estimators.minibatch(4), swap=iv.swaps.noise_penalty(5), swap_energies="exact"
            ),
            ("steps without an acceptance step",),
        ),
        (
            iv.resgld((1, 2), 0.1, estimator=iv.estimators.minibatch(4), swap=iv.swaps.noise_penalty(5)),
            ("steps without an acceptance step", "swaps with the correction factor 5"),
        ),
        (
            iv.resgld(
                (1, 2), 0.1, estimator=iv.estimators.minibatch(4), swap=iv.swaps.metropolis(assume_unbiased=True)
            ),
            ("steps without an acceptance step", "swaps that ignore noise", "swaps that treat fidelities as equal"),
        ),
        (
            iv.samplers.vr_resgld((1, 2), 0.1, size=4),
            (
                "steps without an acceptance step",
                "one variance of a noise that grows with the distance from its snapshot",
            ),
        ),
    ):
        assert sampler.approximations == reasons
        assert str(sampler).endswith(f"approximate: {', '.join(reasons)}") == bool(reasons)


def test_all_five_papers_and_all_of_their_samplers_are_there():
    assert {paper for paper, *_ in ROWS} == {"reLD", "VR", "thesis", "f-reSGLD", "r2SGLD"}
    assert len(CALLS) == len(ROWS) > 30
    named = {re.match(r"iv\.(?:samplers\.)?(\w+)", call)[1] for call in CALLS.values()}
    assert named <= set(samplers.__all__)
    approximate = {
        "cyclic_sgld",
        "sghmc",
        "sgld",
        "resgld",
        "r2sgld",
        "multi_variance_resgld",
        "fast_resgld",
        "vr_resgld",
    }
    baselines = {"csgld", "icsgld", "awsgld", "deo_sgd", "psgld", "svgd", "sgd"}
    assert named == approximate | baselines | {"parallel_tempering", "paired_resgld", "contour_exchange"}


@pytest.mark.parametrize(
    "name", [name for name in samplers.__all__ if "friction" in inspect.signature(getattr(samplers, name)).parameters]
)
def test_at_friction_one_momentum_is_none(name):
    """The rung's kernel is that of its Langevin form; `sghmc` and `ghmc` keep theirs, with the same distribution."""
    contours = (0.1, [1.0, 2.0, 3.0])
    needed = {"paired_resgld": ([[0.0]],), "cyclic_sgld": (0.1,), "csgld": contours, "icsgld": contours}
    given = needed.get(name, ())
    plain, other = (getattr(samplers, name)(*given, friction=friction).rungs for friction in (1.0, 0.3))
    assert all(rung.kernel.friction == 1.0 for rung in plain) and all(rung.kernel.friction == 0.3 for rung in other)
    if name not in ("sghmc", "ghmc"):
        assert all(isinstance(rung.kernel, iv.kernels.Langevin) for rung in plain)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sghmc_at_friction_one_makes_the_draws_of_sgld():
    target = iv.Target(iv.extending.FunctionPotential(lambda x: (0.5 * (x**2).sum(axis=1), x.copy()), 2))
    runs = [
        iv.sample(target, sampler, draws=20, warmup=0, seed=1, progress=False)
        for sampler in (iv.samplers.sghmc(0.1, friction=1.0), iv.samplers.sgld(0.1))
    ]
    np.testing.assert_allclose(runs[0].theta, runs[1].theta, rtol=1e-12)


#: Tests that compare the distribution of each row with a known one, with a control.
DISTRIBUTIONS = {
    "reLD: reLD, exact": "swaps/test_operator.py::TestOracle engine/exchange/test_vectorized_swaps.py::TestTargets",
    "reLD: reLD, unadjusted": "test_paper_targets.py",
    "reLD: reSGLD": "test_paper_targets.py",
    "reLD: naive reSGLD": "test_paper_targets.py",
    "reLD: reSGHMC": "kernels/test_momentum.py::TestLadder",
    "VR: SGLD": "test_paper_targets.py test_targets.py",
    "VR: SGHMC": "kernels/test_momentum.py::TestGaussian",
    "VR: cycSGLD": "test_paper_targets.py",
    "VR: cycSGHMC": "test_paper_targets.py::test_a_cycle_with_momentum",
    "VR: VR-reSGLD, Algorithm 1": "test_paper_memories.py::test_energies_less_those_of_snapshots_that_are_renewed",
    "VR: VR-reSGLD, Algorithm 2": "test_paper_memories.py::test_energies_less_those_of_snapshots_that_are_renewed",
    "VR: VR-reSGHMC": "test_paper_memories.py::test_momentum_with_snapshots_that_are_renewed",
    "VR: its exact form (ours)": "estimators/test_quadratic_controls.py::TestTarget",
    "VR: the same by Gauss-Newton matrices (ours)": "test_examples.py::test_variance_reduction",
    "thesis: APE": "test_paper_targets.py swaps/test_schemes.py::TestAnyTwoRungs",
    "thesis: ADJ, one pair": "test_paper_targets.py",
    "thesis: ADJ, a sweep": "test_paper_targets.py",
    "thesis: SEO": "test_paper_targets.py",
    "thesis: DEO": "test_paper_targets.py",
    "thesis: DEO with window": "test_paper_memories.py::test_pairs_that_rest_until_a_window_is_over",
    "thesis: DEO*-SGD": "kernels/test_baselines.py::TestDeoSgd",
    "thesis: CSGLD": "tempering/test_contours.py::TestPublished",
    "thesis: CSGLD, the published weights": "tempering/test_contours.py::TestPublished",
    "thesis: CSGHMC": "tempering/test_contours.py::TestPublished",
    "thesis: ICSGLD": "tempering/test_contours.py::TestPublished tempering/test_contour_learning.py",
    "thesis: AWSGLD": "test_paper_targets.py tempering/test_contour_learning.py",
    "thesis: contour rung (ours)": "tempering/test_contours.py::TestRungs",
    "thesis: pSGLD": "kernels/test_baselines.py::TestRmsLangevin",
    "thesis: SVGD": "kernels/test_baselines.py::TestStein",
    "thesis: SGD": "kernels/test_baselines.py::TestSwag",
    "f-reSGLD: f-reSGLD": "swaps/test_operator.py::TestCode",
    "f-reSGLD: m-reSGLD": "test_paper_targets.py",
    "f-reSGLD: with kernel ridge regression": "test_noisy_targets.py slow/test_noisy_mixture.py",
    "r2SGLD: R-SGLD": "test_paper_targets.py test_constrained_targets.py",
    "r2SGLD: R-cycSGLD": "test_paper_targets.py",
    "r2SGLD: R-SGHMC": "kernels/test_momentum.py::TestBounds test_constrained_targets.py",
    "r2SGLD: reSGLD without bounds": "test_paper_targets.py",
    "r2SGLD: r2SGLD": "test_paper_targets.py slow/test_constrained_mixtures.py",
    "r2SGLD: r2SGHMC": "test_paper_targets.py",
}


def test_every_row_has_a_test_of_its_distribution():
    assert set(DISTRIBUTIONS) == set(CALLS)
    for place in {place for places in DISTRIBUTIONS.values() for place in places.split()}:
        file, _, name = place.partition("::")
        text = (Path(__file__).parent / file).read_text()
        assert re.search(r"assert not (agrees|within|keeps)|assert abs\(", text), place
        assert re.search(rf"^(class|def) {name}\b", text, re.MULTILINE), place


#: Numbers that fit the line's twelve data and two parameters.
FITTING = (
    ("size=1000, refresh=40", "size=6, refresh=7"),
    ("size=1000", "size=6"),
    ("[[-5.0], [25.0]]", "[[0.3, 0.2]]"),
    ("size=200", "size=6"),
    ("range(3, 40)", "[9.0, 10.0, 12.0]"),
    ("contour_exchange(10)", "contour_exchange(10, energy_bins=[8.0, 9.0, 11.0, 14.0])"),
    ("iv.variances.kernel_ridge()", "iv.variances.kernel_ridge(20, 1.0, 1.0)"),
)
#: What rows refuse, in whose words.
WITHOUT_WALLS = dict.fromkeys(
    ("thesis: DEO*-SGD", "thesis: pSGLD", "thesis: SVGD", "thesis: SGD"), "needs a problem without a domain, got "
)
OF_ONE_FIDELITY = {"f-reSGLD: m-reSGLD": "needs rungs whose energies have the same mean, got the fidelities"}
FLAT = iv.Prior(x=iv.Normal(0, 1), y=iv.Normal(0, 1))


def fitting(call):
    for old, new in FITTING:
        call = call.replace(old, new)
    return made(call)


def problem(name):
    """The bent line in a box and of two fidelities, where rows do not refuse these."""
    tilts = {"fine": 0.0} if name in OF_ONE_FIDELITY else {"coarse": 0.3, "fine": 0.0}
    models = {level: bent_line.model(tilt) for level, tilt in tilts.items()}
    bounded = bent_line.posterior(**models)
    return iv.Posterior(FLAT, models, bounded.data, iv.GaussianNoise(1.0)) if name in WITHOUT_WALLS else bounded


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_in_a_box_of_two_fidelities_any_number_of_processes_resumes_to_the_bit(name, monkeypatch):
    """From warm-up into the draws, where a model fails in a corner; or what a row refuses, and without it."""
    monkeypatch.setattr(load_balancing, "MESSAGES", -1.0)  # cheap as the models are, all processes solve
    sampler = fitting(CALLS[name])
    searching = any(rung.step_size is None or rung.learns_variance for rung in sampler.rungs)
    plan = Plan(20, 100 if searching else 10, 1, 4, 5)
    refused = {**WITHOUT_WALLS, **OF_ONE_FIDELITY}.get(name)
    if refused is not None:
        with pytest.raises(ValueError, match=refused):
            iv.sample(problem(None), sampler, draws=1, warmup=plan.warmup, progress=False)

    class Nothing:
        """Keeps no draws."""

        def keep(self, rung):
            pass

        def keep_many(self, rung, recorded):
            pass

    def steps(engine, count):
        end = engine.done + count
        while engine.done < end:
            engine.step(end - engine.done, Nothing())
        return states.encode(engine.state())

    def go_on(comm, state, count):
        engine = Engine(problem(name), sampler, plan)

        def part():
            engine.restore(states.decode(state))
            return states.decode(steps(engine, count))

        return states.encode(evaluated(engine, Ranks(comm, engine, {}), part))

    whole = Engine(problem(name), sampler, plan)
    whole.begin()
    state = steps(whole, plan.warmup - 3)
    for ranks, count in ((2, 2), (4, 5), (3, 2)):
        state = threads.run(ranks, lambda comm, now=state, n=count: go_on(comm, now, n))[0]
    assert timeless(state) != timeless(steps(whole, 5))
    assert timeless(state) == timeless(steps(whole, 4))
    # the cold rung is of the fine model, whatever hotter ones are of, and keeps to the box
    cold = whole.rungs[0]
    assert cold.potential.fidelity == "fine"
    theta = problem(name).to_theta(cold.position)
    assert np.abs(theta).max() <= 1.0 or 'boundary="ignore"' in CALLS[name] or name in WITHOUT_WALLS


def timeless(state):
    """A state, as bytes, without times."""

    def without(tree):
        if hasattr(tree, "_asdict"):  # the state of a part
            tree = tree._asdict()
        if isinstance(tree, dict):
            return {key: without(value) for key, value in tree.items() if not str(key).endswith("seconds")}
        return [without(part) for part in tree] if type(tree) is list else tree

    return states.encode(without(states.decode(state)))
