"""The Taylor test passes right gradients, finds wrong ones, and never raises."""

from __future__ import annotations

import numpy as np
import pytest
from waves import (
    VARIANTS,
    Fragile,
    Waves,
    mixed,
)

from invsamp.posing.adapters import with_jacobian
from invsamp.posing.distributions import (
    Uniform,
)
from invsamp.posing.noise import GaussianNoise
from invsamp.posing.posterior import Posterior
from invsamp.posing.prior import Prior


@pytest.mark.parametrize("name", VARIANTS)
def test_check_gradient_passes(name: str) -> None:
    result = mixed(**VARIANTS[name]).check_gradient(seed=3)
    assert result.passed, str(result)
    assert abs(result.order - 2.0) < 0.1
    assert "passed" in str(result) and len(str(result).splitlines()) == 2 + len(result.steps)


@pytest.mark.parametrize("error", [1.0, 1e-1, 1e-2])
def test_check_gradient_finds_a_wrong_gradient(error: float) -> None:
    class Wrong(Waves):
        def linearize(self, theta: np.ndarray) -> tuple:
            y, vjp = super().linearize(theta)
            return y, lambda c: (1.0 + error) * vjp(c)

    for seed in range(5):
        result = mixed(forward={"good": Waves(), "wrong": Wrong()}).check_gradient(seed=seed)
        assert not result.passed and abs(result.order - 1.0) < 0.2, str(result)
        assert mixed(forward={"good": Waves(), "wrong": Wrong()}).check_gradient(fidelity="good", seed=seed).passed


def test_check_gradient_raises_nothing() -> None:
    posterior = mixed(forward=Fragile("raise"))
    theta = posterior.prior.sample(np.random.default_rng(0), 1)[0]
    theta[4] = -1.0
    result = posterior.check_gradient(theta)
    assert not result.passed and result.message == "the energy is inf at the point"
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
