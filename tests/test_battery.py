"""The battery of benchmarks/battery.py: its densities, its moments, its verdicts."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "battery.py"


@pytest.fixture(scope="module")
def battery():
    spec = importlib.util.spec_from_file_location("battery", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = path


def test_gradients_are_those_of_the_energies(battery):
    hard, bent, levels = battery._battery_hard, battery._battery_geometry, battery._battery_hierarchies
    for name, build in (hard.BUILDERS | bent.BUILDERS | levels.BUILDERS).items():
        line = battery.check(build())
        assert line.startswith(f"{name}: ")
        assert float(line.split()[-1]) < 1e-6, line


def test_probabilities_of_modes_are_those_of_exact_draws(battery, within):
    case = battery._battery_hard.BUILDERS["three_modes"]()
    rng, n = np.random.default_rng(1), 100_000
    centers = np.array([[4.0, 0.0, 0.0], [-2.0, 3.5, 0.0], [-2.0, -3.5, 0.0]])
    which = rng.integers(3, size=n)
    found = case.quantities(centers[which] + np.array([0.1, 0.3, 1.0])[which, None] * rng.standard_normal((n, 3)))
    mean, sd, _ = case.moments
    assert within((found.mean(axis=0) - mean) / sd * np.sqrt(n), 5.0)
    assert not within((found[which > 0].mean(axis=0) - mean) / sd * np.sqrt(n), 5.0)


def exact(name, rng, n):
    """Independent draws of a distribution, from its definition."""
    z = rng.standard_normal((n, 10))
    if name == "funnel":
        return np.column_stack([3.0 * z[:, 0], np.exp(1.5 * z[:, :1]) * z[:, 1:]])
    if name == "rosenbrock":
        x = 1.0 + np.sqrt(10.0) * z[:, 0]
        return np.column_stack([x, x**2 + np.sqrt(0.1) * z[:, 1]])
    if name == "student_t":
        return rng.standard_t(5.0, (n, 10))
    # the ring: angles, and radii by their inverse distribution function
    radius = np.linspace(4.2, 5.8, 100_001)
    density = radius * np.exp(-50.0 * (radius - 5.0) ** 2)
    r = np.interp(rng.random(n), np.cumsum(density) / density.sum(), radius)
    angle = 2.0 * np.pi * rng.random(n)
    return np.column_stack([r * np.cos(angle), r * np.sin(angle)])


@pytest.mark.parametrize("name", ["funnel", "rosenbrock", "student_t", "ring"])
def test_moments_are_those_of_exact_draws(battery, within, name):
    case = battery._battery_hard.BUILDERS[name]()
    rng = np.random.default_rng(1)
    draws = case.quantities(exact(name, rng, 400_000))
    mean, sd, _ = case.moments
    fourth = np.mean(((draws - mean) / sd) ** 4, axis=0)

    def scores(mean, sd):
        z_mean = (draws.mean(axis=0) - mean) / sd * np.sqrt(len(draws))
        z_sd = (draws.var(axis=0) / sd**2 - 1.0) * np.sqrt(len(draws) / (fourth - 1.0))
        return np.concatenate([z_mean, z_sd])

    assert within(scores(mean, sd), 5.5)
    assert not within(scores(mean + 0.05 * sd, sd), 5.5)
    assert not within(scores(mean, 1.05 * sd), 5.5)


def test_sd_of_the_funnel_is_that_of_nested_adaptive_quadrature(battery):
    """Gauss-Hermite quadrature with 151 nodes has 1.3426."""
    for case in (battery._battery_hard.BUILDERS["funnel"](), battery._battery_geometry.BUILDERS["funnel_50"]()):
        np.testing.assert_allclose(case.moments[1][1:], 1.3448585, rtol=2e-6)


def test_moments_of_the_horseshoe_are_those_of_prior_draws(battery, within):
    """Each batch of prior draws of lambda |z|, counted in narrow bins, gives the likelihood of each group given tau."""
    mean, sd, _ = battery._battery_models.BUILDERS["horseshoe"]().moments
    rng, edges = np.random.default_rng(1), np.linspace(-12.0, 14.0, 1301)
    log_tau = np.linspace(-7.0, 4.0, 56)
    size = np.exp(log_tau[:, None] + 0.5 * (edges[1:] + edges[:-1]))
    b = np.concatenate([-size, size], axis=1)
    prior = log_tau - np.log1p(4.0 * np.exp(2.0 * log_tau))
    successes = np.array([20, 22, 17, 19, 36, 21, 18, 5])[:, None, None]
    likelihood = np.exp(28.0 + successes * b - 40.0 * np.logaddexp(0.0, b))
    parts = np.stack([likelihood * np.arcsinh(b) ** power for power in (0, 1, 2)])  # (3, groups, tau, bins)
    found = []
    for _ in range(20):
        u = np.log(np.abs(rng.standard_cauchy(200_000) * rng.standard_normal(200_000)))
        mass, first, second = parts @ np.tile(np.histogram(u, edges)[0] / 200_000, 2)
        log = prior + np.log(mass).sum(axis=0)
        weight = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
        mean_now = np.array([weight @ log_tau, *(first / mass @ weight)])
        found.append([mean_now, np.sqrt([weight @ log_tau**2, *(second / mass @ weight)] - mean_now**2)])
    estimates, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(20)
    error[0, 1] = np.inf  # zero by symmetry, here too

    def scores(mean, sd):
        return ((estimates - [mean, sd]) / error).ravel()

    assert within(scores(mean, sd), 5.5)
    # the errors of 121 Gauss-Hermite nodes of z
    assert not within(scores(mean + 0.035 * np.eye(9)[0], sd), 5.5)
    assert not within(scores(mean, sd + 0.014 * np.eye(9)[0]), 5.5)


def test_verdicts(battery):
    case = battery._battery_hard.BUILDERS["rosenbrock"]()
    rng = np.random.default_rng(1)
    draws = exact("rosenbrock", rng, 40_000)
    energy = case.problem.potential().energy(draws).reshape(4, -1)
    right = battery.judged(case, draws.reshape(4, -1, 2), energy)
    assert right["right"]
    assert right["ess"] > 30_000
    # again, from the stored summary
    assert battery.compared(case, right["summary"]).items() <= right.items()
    shifted = battery.judged(case, 0.2 + draws.reshape(4, -1, 2), energy)
    assert not shifted["honest"]
    wide = battery.judged(case, 1.2 * draws.reshape(4, -1, 2), energy)
    assert not wide["honest"]
    normal = battery._battery_hard.BUILDERS["scales"]()
    few = rng.standard_normal((400, 13))
    few = (few - few.mean(axis=0)) / few.std(axis=0) + 0.15  # three standard errors of so few
    few = battery.judged(
        normal, (few * normal.moments[1]).reshape(4, -1, 13), np.square(few).sum(axis=1).reshape(4, -1)
    )
    assert few["honest"] and not few["right"]
    records = [
        right | {"warnings": []},
        shifted | {"warnings": []},
        shifted | {"warnings": ["R-hat"]},
        {"failed": "why"},
    ]
    records.append(few | {"warnings": []})
    assert [battery.verdict(record) for record in records] == ["right", "SILENT", "warned", "failed", "imprecise"]
    rows = [{"name": "x", "seed": k, "ours": r | {"gradients": 1000}} for k, r in enumerate(records)]
    assert "1 SILENT" in battery.table(rows)


def test_an_endless_run_is_ended(battery):
    assert battery.limited(lambda: exec("while True: pass"), 0.2)["failed"] == "no end within 0.2 seconds"
    assert "ZeroDivisionError" in battery.limited(lambda: 1 / 0, 60.0)["failed"]


def test_results_are_read_from_a_folder(battery, tmp_path):
    made = []

    def make():
        made.append(1)
        return {"right": True}

    for _ in range(2):
        results = battery.Results(tmp_path / "results", "ours")
        assert results.get("ring", 1, 2000, make) == {"name": "ring", "seed": 1, "draws": 2000, "right": True}
    assert made == [1]
