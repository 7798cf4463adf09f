"""The check passes right gradients, finds wrong ones, and never raises; it agrees with that of runs."""

from __future__ import annotations

import numpy as np
import pytest
from waves import VARIANTS, Fragile, Waves, mixed

from invsamp.posing.checks.directional_derivative_test import Probe
from invsamp.posing.distributions.univariate import Uniform
from invsamp.posing.forward_models.adapters import approximate_derivatives, finite_differences, with_jacobian
from invsamp.posing.noise.continuous import GaussianNoise
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior
from invsamp.protocols import derivative_error


@pytest.mark.parametrize("name", VARIANTS)
def test_check_gradient_passes(name: str) -> None:
    result = mixed(**VARIANTS[name]).check_gradient(seed=3)
    assert result.passed, str(result)
    assert result.relative_error < 1e-7 and result.differences[-1] == pytest.approx(result.slope, rel=1e-6)
    assert "passed" in str(result) and len(str(result).splitlines()) == 2 + len(result.steps)


def wrong_by(error: float) -> Waves:
    class GradientMistake(Waves):
        def linearize(self, theta: np.ndarray) -> tuple:
            y, vjp = super().linearize(theta)
            return y, lambda c: (1.0 + error) * vjp(c)

    return GradientMistake()


@pytest.mark.parametrize(("error", "least"), [(1.0, 20), (1e-1, 20), (1e-2, 20), (1e-3, 20), (1e-4, 17)])
def test_what_is_wrong_never_passes_where_derivatives_claim_to_be_exact(error: float, least: int) -> None:
    results = [mixed(forward=wrong_by(error)).check_gradient(seed=seed) for seed in range(20)]
    failed = [result for result in results if not result.passed]
    # of a mistake as small as the last one a fortieth of the directions has less than 1e-6
    assert len(failed) >= least
    for result in failed:
        assert result.admitted == 0.0 and result.relative_error <= 1.3 * error, str(result)
        assert "FAILED" in str(result) and "claims exact derivatives" in result.message


@pytest.mark.parametrize("error", [1e-1, 1e-2])
def test_derivatives_that_admit_an_error_pass_up_to_it(error: float) -> None:
    enough, too_little = (
        [mixed(forward=approximate_derivatives(wrong_by(error), by)).check_gradient(seed=seed) for seed in range(20)]
        for by in (2.0 * error, 0.03 * error)
    )
    assert all(result.passed for result in enough)
    for results, by in ((enough, 2.0 * error), (too_little, 0.03 * error)):
        assert all(f"of which the model admits {by:.1e}" in result.message for result in results)
    # some directions hardly meet the mistake
    assert sum(not result.passed for result in too_little) >= 12


@pytest.mark.parametrize("error", [0.0, 0.5, 0.05, 0.01])
def test_what_a_run_refuses_never_passes_and_what_passes_a_run_takes(error: float) -> None:
    for seed in range(20):
        posterior, rng = mixed(forward=wrong_by(error)), np.random.default_rng(seed)
        found = posterior.check_gradient(seed=seed)
        draws = posterior.sample_start(rng, 200)
        spread = np.diff(np.quantile(draws, (0.25, 0.75), axis=0), axis=0)[0]
        probe = Probe(posterior.potential(), draws[0])
        mistake = probe.compare(rng.standard_normal(posterior.dimension) * spread).mistake
        assert not (found.passed and mistake is not None), str(found)
        assert found.passed is (error == 0.0)


def test_what_carries_an_error_in_derivatives() -> None:
    waves = Waves()
    assert derivative_error(mixed(forward=waves).potential()) == 0.0
    forward, central, exact = (
        finite_differences(waves, scheme=scheme) for scheme in ("forward", "central", "complex_step")
    )
    assert 1e-4 < forward.derivative_error < 1e-3 and 1e-6 < central.derivative_error < 1e-4
    assert exact.derivative_error == 0.0
    assert derivative_error(mixed(forward=forward).potential()) == forward.derivative_error
    for model in (forward, central):
        assert mixed(forward=model).check_gradient().passed
    declared = approximate_derivatives(waves, 0.01)
    assert declared.derivative_error == 0.01 and not hasattr(waves, "derivative_error")
    with pytest.raises(ValueError, match=r"error must be a number in \[0, 1\), got 2"):
        approximate_derivatives(waves, 2)


class Single(Waves):
    """As a network computes it: single precision in and out."""

    def __init__(self, error: float = 0.0) -> None:
        super().__init__()
        self.error = error

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        return super().__call__(theta.astype(np.float32).astype(float)).astype(np.float32)

    def linearize(self, theta: np.ndarray) -> tuple:
        y, vjp = super().linearize(theta.astype(np.float32).astype(float))
        return y.astype(np.float32), lambda c: ((1.0 + self.error) * vjp(c)).astype(np.float32)


def test_single_precision_passes_or_is_named() -> None:
    right, wrong = (
        [mixed(forward=Single(error)).check_gradient(seed=seed) for seed in range(20)] for error in (0.0, 0.1)
    )
    assert sum(result.passed for result in right) >= 18
    assert sum(not result.passed for result in wrong) >= 18
    assert sum("single precision" in result.message for result in right) >= 12
    # in double precision there is no such noise to speak of
    assert not any("single precision" in mixed(forward=wrong_by(0.1)).check_gradient(seed=k).message for k in range(5))


@pytest.mark.parametrize("error", [1.0, 1e-1, 1e-2])
def test_check_gradient_finds_a_wrong_gradient(error: float) -> None:
    for seed in range(5):
        result = mixed(forward={"good": Waves(), "wrong": wrong_by(error)}).check_gradient(seed=seed)
        assert not result.passed, str(result)
        good = mixed(forward={"good": Waves(), "wrong": wrong_by(error)})
        assert good.check_gradient(fidelity="good", seed=seed).passed


def test_check_gradient_raises_nothing() -> None:
    posterior = mixed(forward=Fragile("raise"))
    theta = posterior.prior.sample(np.random.default_rng(0), 1)[0]
    theta[4] = -1.0
    result = posterior.check_gradient(theta)
    assert not result.passed and result.message.startswith("the energy is inf at the point (")
    # an energy that carries the error of an adaptive solver, 1e-8 of its size

    class Rough(Waves):
        def __call__(self, theta: np.ndarray) -> np.ndarray:
            y = super().__call__(theta)
            return y * (1 + 1e-8 * np.sin(1e13 * y))

    assert mixed(forward=Rough()).check_gradient().passed
    # a linear energy leaves rounding error only
    linear = Posterior(
        Prior(x=Uniform(-1e3, 1e3)),
        with_jacobian(lambda t: 0 * t, lambda t: 0 * t[:, :, None]),
        [1.0],
        GaussianNoise(1),
    )
    assert linear.check_gradient().passed
