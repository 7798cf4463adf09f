"""Whether the model fits its data: silence where it does, and words where it does not."""

from __future__ import annotations

import numpy as np
import pytest
from parts import cases

import invsamp as iv

TIMES = np.linspace(0.0, 2.0, 90)
SCALE = 0.1
SHAPES = np.stack([np.ones(90), TIMES, np.sin(3.0 * TIMES)], axis=1)
TRUTH = iv.Prior(a=iv.Normal(0, 1, shape=3))


def linear(shapes):
    return iv.with_jacobian(lambda t: t @ shapes.T, lambda t: np.broadcast_to(shapes, (len(t), *shapes.shape)))


def made(seed, noise=SCALE, bend=0.0):
    """Data of parameters that are drawn from the prior."""
    rng = np.random.default_rng(seed)
    theta = TRUTH.sample(rng, 1)[0]
    return SHAPES @ theta + bend * TIMES**3 + noise * rng.standard_normal(90)


def misfit_warnings(data, noise, shapes=SHAPES, sampler=None, **settings):
    """What a run says of the fit."""
    posterior = iv.Posterior(iv.Prior(a=iv.Normal(0, 1, shape=shapes.shape[1])), linear(shapes), data, noise)
    settings = {"draws": 150, "warmup": 300, "seed": 1, "progress": False} | settings
    run = iv.sample(posterior, sampler or iv.hmc(), **settings)
    return [line for line in run.warnings() if "fit" in line], run


pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize("seed", cases(range(20), range(8)))
def test_a_model_that_fits_is_not_warned_of(seed):
    data = made(seed)
    for noise in (iv.GaussianNoise(SCALE), iv.StudentTNoise(30.0, SCALE)):
        assert misfit_warnings(data, noise)[0] == []


@pytest.mark.parametrize("seed", range(5))
def test_noise_half_as_large_as_it_is(seed):
    (line,), run = misfit_warnings(made(seed, 2.0 * SCALE), iv.GaussianNoise(SCALE))
    assert line.startswith("IV-MISFIT: the model does not fit its data: their misfit is ")
    assert "With the stated noise, 90 data give 45 with a standard deviation of 6.7" in line
    assert "scale is too small" in line and line in repr(run)
    misfit = run.data.sample_stats["misfit"].mean() - run.report["misfit"]["least"]
    assert f"their misfit is {float(misfit):.3g} on average" in line


@pytest.mark.parametrize("seed", range(5))
def test_a_model_that_lacks_a_term(seed):
    assert len(misfit_warnings(made(seed, bend=0.5), iv.GaussianNoise(SCALE))[0]) == 1
    assert len(misfit_warnings(made(seed, bend=0.5), iv.StudentTNoise(30.0, SCALE))[0]) == 1


def test_data_without_noise():
    (line,), _ = misfit_warnings(made(1, noise=0.0), iv.GaussianNoise(SCALE))
    assert line.startswith("IV-OVERFIT: the model fits its data too well")
    assert "made without noise" in line


def test_nothing_is_said_where_nothing_is_known():
    bent = made(1, bend=2.0)
    posterior = iv.Posterior(
        iv.Prior(a=iv.Normal(0, 1, shape=3), s=iv.HalfNormal(10)), linear(SHAPES), bent, iv.GaussianNoise("s")
    )
    run = iv.sample(posterior, iv.hmc(), draws=100, warmup=300, seed=1, progress=False)
    assert run.report["misfit"] is None and not any("fit" in line for line in run.warnings())
    # noisy energies
    sampler = iv.samplers.sgld(1e-5, estimator=iv.estimators.minibatch(10))
    assert misfit_warnings(bent, iv.GaussianNoise(SCALE), sampler=sampler)[1].report["misfit"] is None


def test_it_is_said_of_a_run_on_disk_and_of_a_ladder(tmp_path):
    bent = made(1, bend=0.5)
    for k, sampler in enumerate((iv.hmc(), iv.samplers.parallel_tempering((1.0, 3.0)))):
        lines, _ = misfit_warnings(bent, iv.GaussianNoise(SCALE), sampler=sampler, directory=tmp_path / str(k))
        assert len(lines) == 1
        assert lines[0] in iv.load(tmp_path / str(k)).warnings()


def test_chains_without_a_misfit_do_not_warn():
    """Started far away with tiny steps: what is wrong is that they drift."""
    start = np.full(3, 5.0)
    lines, run = misfit_warnings(
        made(1), iv.GaussianNoise(SCALE), sampler=iv.mala(1e-7), start=start, warmup=0, check_gradient=False
    )
    assert float(run.data.sample_stats["misfit"].min()) - run.report["misfit"]["least"] > run.report["misfit"]["high"]
    assert lines == []
