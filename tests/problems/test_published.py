"""Printed settings: what examples import is what the papers print, and what the page of the papers shows."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import invsamp as iv
from invsamp.problems import mixtures, published

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("setting", published.SETTINGS, ids=lambda setting: setting.place)
def test_is_a_mapping_with_a_source_that_the_page_shows(setting):
    assert setting.paper in published.PAPERS
    assert dict(setting) == dict(setting.constants) and len(setting) == len(list(setting))
    page = " ".join((ROOT / "docs" / "validation" / "papers" / "index.md").read_text().split())
    assert str(setting) in page


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    return lambda name: runpy.run_path(str(ROOT / "examples" / f"{name}.py"))


def steps(sampler):
    return tuple(rung.step_size for rung in sampler.rungs)


def test_domains_are_sampled_as_printed(example):
    methods, setting = example("constrained_mixtures")["METHODS"], published.DOMAINS
    assert steps(methods["r2SGLD"]) == steps(methods["P-reSGLD"]) == steps(methods["reSGLD"]) == setting["rates"]
    assert steps(methods["R-SGLD"]) == steps(methods["P-SGLD"]) == (setting["single_rate"],)
    (schedule,) = steps(methods["R-cycSGLD"])
    assert (schedule.step_size, schedule.cycles) == (setting["cyclic_rate"], setting["cycles"])


@pytest.mark.parametrize(
    ("name", "setting"), [("lorenz", published.LORENZ), ("lotka_volterra", published.LOTKA_VOLTERRA)]
)
def test_systems_are_identified_as_printed(example, name, setting):
    samplers = example(name)["common"].published(setting, setting["iterations"])
    # cycles begin once the length of the run is known
    (cycle,) = steps(samplers.pop("R-cycSGLD"))
    assert (cycle.step_size, cycle.cycles) == (setting["cyclic_rate"], setting["cycles"])
    first = {label: [schedule(0) for schedule in steps(sampler)] for label, sampler in samplers.items()}
    assert first["SGLD"] == first["R-SGLD"] == [setting["single_rate"]]
    assert first["reSGLD"] == first["r2SGLD"] == list(setting["rates"])
    schedule = steps(samplers["R-SGLD"])[0]
    after = setting["decay_from"]
    assert schedule(after) == pytest.approx(setting["single_rate"])
    assert schedule(after + 100) == pytest.approx(setting["single_rate"] * setting["decay"] ** 100)


def test_the_ring_is_sampled_as_printed(example):
    ring, setting = example("heat_ring"), published.HEAT_RING
    cold = setting["temperatures"][0]
    for label, size in (("s-reSGLD", "small"), ("f-reSGLD", "large"), ("l-reSGLD", "large")):
        sampler = ring["printed"]()[label]
        temperatures = [cold / rung.target.factors[0] for rung in sampler.rungs]
        assert temperatures == pytest.approx(setting["temperatures"])
        for rung in sampler.rungs:
            found = rung.estimator.energy_sd * cold, rung.estimator.gradient_sd * cold
            assert found == pytest.approx((setting[f"energy_sd_{size}"], setting[f"gradient_sd_{size}"]))


def test_mixtures_are_those_of_the_problems():
    for setting, mixture in (
        (published.MIXTURE, mixtures.two_modes()),
        (published.GAUSSIAN_SWAPS, mixtures.close_modes()),
        (published.FAR_MODES, mixtures.far_modes()),
    ):
        made = mixtures.GaussianMixture(setting["weights"], setting["means"], setting["sds"])
        assert made == mixture


def test_swaps_are_those_printed(example):
    for setting in (published.GAUSSIAN_SWAPS, published.STUDENT_SWAPS, published.WIDE_STUDENT_SWAPS):
        samplers = example("swap_noise")["samplers"](setting)
        for factor in setting["factors"]:
            sampler = samplers[f"reSGLD, F {factor:g}"]
            assert steps(sampler) == (setting["step_size"],) * 2
            rule = iv.swaps.metropolis() if factor == float("inf") else iv.swaps.noise_penalty(factor)
            assert sampler.swap.rule == rule


def test_tempering_is_as_printed(example):
    found, setting = example("tempering"), published.TEMPERING
    (rung,) = iv.samplers.deo_sgd().rungs  # the preset's own settings
    assert (rung.step_size, rung.kernel.highest) == setting["rates"]
    assert (rung.kernel.processes, rung.kernel.window) == (setting["processes"], setting["window"])
    assert (found["TARGETS"], found["CYCLES"]) == (setting["targets"], setting["cycles"])


def test_the_grid_is_as_printed(example):
    found, setting = example("best_so_far"), published.GRID
    assert (found["PAIRS"], found["KAPPAS"], found["STEP"]) == tuple(
        setting[name] for name in ("pairs", "variances", "step_size")
    )
    assert found["INTENSITIES"][0] == setting["intensity"]
