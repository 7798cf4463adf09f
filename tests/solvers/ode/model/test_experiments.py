"""Several experiments in one forward model."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

import invsamp as iv
from invsamp.solvers.ode import Experiments, OdeModel

TIMES = np.array([0.5, 1.0, 3.0])
MODEL = OdeModel(
    lambda t, x, p: (p[0] - p[1] * x[0],), ("x",), ("make", "lose"), rtol=1e-10, atol=1e-12,
)  # fmt: skip

real = OdeModel.solve


def experiments():
    return Experiments(
        {
            "low": MODEL.observe(TIMES, (0.0,), t0=0.0, given={"make": 1.0}),
            "high": MODEL.observe(TIMES[:2], ("x0",), t0=0.0, given={"make": "make_high"}),
            "other": MODEL.observe(TIMES, (lambda p: p[0],), t0=0.0, given={"lose": "lose_other", "make": "make_high"}),
        }
    )


THETA = np.array([[0.4, 2.0, 0.5, 0.9], [0.7, 1.0, 0.2, 0.3]])


def exact(t, make, lose, x0):
    return make / lose + (x0 - make / lose) * np.exp(-lose * t)


def test_shared_and_own_parameters():
    forward = experiments()
    assert forward.parameters == ("lose", "make_high", "x0", "lose_other")
    assert forward.slices == {"low": slice(0, 3), "high": slice(3, 5), "other": slice(5, 8)}
    y, slopes = forward.jacobian(THETA)
    np.testing.assert_array_equal(y, forward(THETA))

    def expected(theta):
        lose, high, x0, other = theta
        return np.concatenate(
            [exact(TIMES, 1.0, lose, 0.0), exact(TIMES[:2], high, lose, x0), exact(TIMES, high, other, high)]
        )

    for row in range(2):
        np.testing.assert_allclose(y[row], expected(THETA[row]), rtol=1e-8)
        for column in range(4):
            moved = THETA[row].astype(complex)
            moved[column] += 1e-30j
            np.testing.assert_allclose(slopes[row, :, column], expected(moved).imag / 1e-30, atol=1e-7)
    cotangent = np.random.default_rng(0).normal(size=y.shape)
    np.testing.assert_allclose(
        forward.linearize(THETA)[1](cotangent), np.einsum("bm,bmp->bp", cotangent, slopes), rtol=1e-12
    )


def test_a_batch_equals_single_rows():
    """Of one model in groups with other derivatives and times, and of its coarse fidelity, to the bit."""
    for forward in (experiments(), experiments().coarsen(rtol=1e-4)):
        y, matrix = forward.jacobian(THETA)
        for name, each in forward.observations.items():
            columns, rows = [forward.parameters.index(one) for one in each.parameters], forward.slices[name]
            alone, own = each.jacobian(THETA[:, columns])
            np.testing.assert_array_equal(y[:, rows], alone)
            np.testing.assert_array_equal(matrix[:, rows][:, :, columns], own)
            np.testing.assert_array_equal(forward(THETA)[:, rows], each(THETA[:, columns]))
    solved = []
    many = Experiments({f"e{k}": MODEL.observe(TIMES, (float(k),), t0=0.0) for k in range(5)})
    with mock.patch.object(OdeModel, "solve", lambda *given, **named: solved.append(1) or real(*given, **named)):
        many(THETA[:, 1:3])
    assert len(solved) == 1 and many.cost > 0.0


def test_a_posterior_of_several_experiments():
    forward = experiments()
    prior = iv.Prior(**dict.fromkeys(forward.parameters, iv.LogNormal(0.0, 1.0)))
    posterior = iv.Posterior(
        prior, {"coarse": forward.coarsen(rtol=1e-4), "fine": forward}, forward(THETA[:1])[0], iv.GaussianNoise(0.1)
    )
    assert posterior.check_gradient(THETA[1]).passed
    assert np.isfinite(forward.cost) and forward.message is None and forward.no_derivatives is None


def test_a_failure_says_in_which_experiment():
    explosive = OdeModel(lambda t, x, p: (p[0] * x[0] ** 2,), ("x",), ("p",))
    pair = [explosive.observe([2.0], (1.0,), t0=0.0, given=given) for given in ({"p": 0.1}, {"p": "rate"})]
    forward = Experiments({"mild": pair[0], "wild": pair[1]})
    assert np.isnan(forward(np.array([[5.0]]))).tolist() == [[False, True]]
    assert forward.message.startswith("wild: ")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Experiments({}), "observations must have at least one entry"),
        (lambda: Experiments([1]), "observations must be a mapping"),
        (lambda: Experiments({"a": MODEL}), r"observations\['a'\] must be an observation of an ODE"),
        (
            lambda: Experiments({"a": MODEL.observe(TIMES, (0.0,)).coarsen(until=1.0)}),
            r"observations\['a'\] must predict all its data",
        ),
        (lambda: experiments()(np.ones((2, 3))), r"theta must have shape \(batch, 4\), got \(2, 3\)"),
    ],
)
def test_bad_input_is_a_value_error_that_names_it(make, message):
    with pytest.raises(ValueError, match=message):
        make()
