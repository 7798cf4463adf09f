"""Besov priors: densities and derivatives against dense computations, wavelets against their definition."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import invsamp as iv
from invsamp.solvers import fields

FIELDS = [
    fields.besov(8),
    fields.besov((4, 4), 2.0, mean=1.0),
    fields.besov((4, 4), p=1.5),
    fields.besov((2, 2, 2), p=2),
]


@pytest.mark.parametrize("field", FIELDS, ids=repr)
class TestBesov:
    def test_whitening_undoes_coloring(self, field):
        white = np.random.default_rng(0).standard_normal((3, field.size)) * [[0.1], [1.0], [4.0]]
        np.testing.assert_allclose(field.whiten(field.color(white)), white, rtol=1e-9, atol=1e-12)

    def test_the_density_is_that_of_white_noise_by_the_change_of_variables(self, field):
        white, step = np.random.default_rng(1).standard_normal((2, field.size)), 1e-6
        for row in white:
            steps = step * np.eye(field.size)
            jacobian = (field.color(row + steps) - field.color(row - steps)) / (2 * step)
            normal = -0.5 * (row**2).sum() - 0.5 * field.size * np.log(2 * np.pi)
            expected = normal - np.linalg.slogdet(jacobian)[1]
            assert field.log_density(field.color(row[None]))[0][0] == pytest.approx(expected, rel=1e-6)

    def test_derivatives_are_those_of_differences(self, field):
        rng, step = np.random.default_rng(2), 1e-6
        white, moved = rng.standard_normal((2, 3, field.size))
        cotangents = rng.standard_normal((3, 2, field.size))
        change = (field.color(white + step * moved) - field.color(white - step * moved)) / (2 * step)
        by_white = field.pullback(white, cotangents)[0]
        np.testing.assert_allclose(
            (by_white * moved[:, None]).sum(axis=2), (change[:, None] * cotangents).sum(axis=2), rtol=1e-6
        )
        at = field.color(white)
        slope = field.log_density(at)[1]
        up, down = (field.log_density(at + sign * step * moved)[0] for sign in (1, -1))
        np.testing.assert_allclose((slope * moved).sum(axis=1), (up - down) / (2 * step), rtol=1e-4)


def test_the_sd_is_that_given(agrees):
    """Squares of 64,000 draws, everywhere at once; another sd is rejected."""
    field = fields.besov((4, 4), sd=1.5)
    squares = (field.sample(np.random.default_rng(3), 64_000) ** 2).reshape(64, 1000, 16).mean(axis=1)
    assert agrees(squares, np.full(16, 2.25))
    assert not agrees(squares, np.full(16, 1.1 * 2.25))


def test_wavelets_of_a_jump_are_few():
    step = np.where(np.arange(64) < 32, -1.0, 1.0)
    coefficients = fields.besov(64).whiten(step[None])[0]
    assert (np.abs(coefficients) > 1e-9).sum() == 1


def test_of_exponent_2_it_is_gaussian():
    field = fields.besov((4, 4), p=2)
    white = np.random.default_rng(4).standard_normal((1, 16))
    np.testing.assert_allclose(field.color(2 * white), 2 * field.color(white), rtol=1e-9)


def test_a_prior_takes_one():
    prior = iv.Prior(image=fields.besov((4, 4)))
    draws = prior.sample(np.random.default_rng(5), 2)
    np.testing.assert_allclose(prior.log_density(draws), fields.besov((4, 4)).log_density(draws)[0])


def test_a_prior_without_a_limit_warns():
    with pytest.warns(UserWarning, match=r"smoothness 2 is at most d / p = 2: the prior has no limit"):
        fields.besov((4, 4), smoothness=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fields.besov((4, 4), smoothness=2.1)


@pytest.mark.parametrize("shape", [6, (4, 8), (2, 2, 2, 2), 1])
def test_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match="shape must be"):
        fields.besov(shape)
