"""A user's noise that breaks its contract is rejected by name: when it is posed, or at its first use."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import invsamp as iv
from invsamp.errors import ModelError

PRIOR = iv.Prior(a=iv.Normal(0, 1, shape=3), s=iv.HalfNormal(1))
MODEL = iv.with_jacobian(lambda t: t, lambda t: np.broadcast_to(np.eye(3), (len(t), 3, 3)), parameters=["a"])


def laplace(**changed: object) -> iv.extending.Noise:
    """Errors with exponential tails, with changed attributes."""

    def evaluate(self, y, data, scale):
        z = np.abs(data - y) / scale
        return -z - np.log(2 * scale), np.sign(data - y) / scale, (z - 1) / scale

    right = {
        "quantities": {"scale": "s"},
        "evaluate": evaluate,
        "sample": lambda self, rng, y, scale: y + scale * rng.laplace(size=y.shape),
    }
    return type("Laplace", (iv.extending.Noise,), right | changed)()


def posed(noise: iv.extending.Noise) -> iv.Posterior:
    return iv.Posterior(PRIOR, MODEL, [0.1, 0.2, 0.3], noise)


def test_one_that_keeps_it() -> None:
    posterior = posed(laplace(limits={"scale": (0.0, np.inf)}))
    assert posterior.check_gradient().passed
    assert posterior.sample_data(np.random.default_rng(0), [[0.0, 0.0, 0.0, 1.0]]).shape == (1, 3)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"limits": {"scael": (0.0, 1.0)}}, r"limits of Laplace must be of its quantities \['scale'\], got 'scael'"),
        ({"limits": {"scale": (1.0, 0.0)}}, r"limits\['scale'\] of Laplace must be a lower and an upper end, got"),
        ({"limits": {"scale": 1.0}}, r"limits\['scale'\] of Laplace must be a lower and an upper end, got 1.0"),
        ({"sample": lambda self, y, scale: y}, r"sample of Laplace must take \(rng, y, scale\), .*too many positional"),
        (
            {"evaluate": lambda self, y, data: (y, y)},
            r"evaluate of Laplace must take \(y, data, scale\), .*\['scale'\]",
        ),
        ({"quantities": {}}, r"evaluate of Laplace must take \(y, data\), of which none are .*argument: 'scale'"),
    ],
)
def test_refused_where_it_is_posed(changed: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        posed(laplace(**changed))


@pytest.mark.parametrize(
    ("evaluate", "message"),
    [
        (
            lambda self, y, data, scale: y,
            r"that in scale, a tuple of 3, got a ndarray",
        ),
        (lambda self, y, data, scale: (y, y), "a tuple of 3, got a tuple of 2"),
        (lambda self, y, data, scale: (y.sum(axis=1), y, y), r"likelihoods in shape \(1, 3\), got \(1,\)"),
        (lambda self, y, data, scale: (y, 1.0, y), r"the derivative in y in shape \(1, 3\), got \(\)"),
        (lambda self, y, data, scale: (y, y, np.zeros(3)), r"that in scale in shape \(1, 3\), got \(3,\)"),
    ],
)
def test_refused_at_its_first_use(evaluate: Callable[..., object], message: str) -> None:
    posterior = posed(laplace(evaluate=evaluate))
    with pytest.raises(ModelError, match="evaluate of Laplace must return .*" + message):
        posterior.log_density([0.0, 0.0, 0.0, 1.0])
