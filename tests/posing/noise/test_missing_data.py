"""Data that are missing: as if the models did not predict them, but for predictions."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv
from invsamp.protocols import TermwisePotential

TIMES = np.linspace(0.0, 2.0, 8)
DATA = np.array([[1.2, 0.9], [np.nan, 0.4], [0.6, np.nan], [0.2, 0.3]])
SEEN = np.flatnonzero(~np.isnan(DATA))
MASKED = np.ma.masked_invalid(DATA)
PRIOR = iv.Prior(a=iv.LogNormal(0, 1), b=iv.HalfNormal(1), s=iv.LogNormal(-1, 0.5, shape=(4, 2)))


class Decay:
    """a exp(-b t) at some of the times."""

    def __init__(self, indices=None):
        self.times = TIMES if indices is None else TIMES[indices]
        if indices is not None:
            self.data_indices = indices

    def __call__(self, theta):
        return theta[:, :1] * np.exp(-theta[:, 1:] * self.times)

    def linearize(self, theta):
        y = self(theta)
        jacobian = np.stack([y / theta[:, :1], -self.times * y], axis=2)
        return y, lambda cotangent: np.einsum("bm,bmp->bp", cotangent, jacobian)


class DecayWithRows(Decay):
    def rows(self, theta, indices):
        y = theta[:, :1] * np.exp(-theta[:, 1:] * self.times[indices])
        return y, np.stack([y / theta[:, :1], -self.times[indices] * y], axis=2)


def only_seen():
    """The posterior that never heard of what is missing; its scales are the same parameters."""

    class Noise(iv.extending.Noise):
        quantities = {"scale": "s"}  # noqa: RUF012

        def evaluate(self, y, data, scale):
            return iv.GaussianNoise(1.0).evaluate(y, data, scale)

        def sample(self, rng, y, scale):
            return y

    prior = iv.Prior(a=iv.LogNormal(0, 1), b=iv.HalfNormal(1), s=iv.LogNormal(-1, 0.5, shape=6))
    model = Decay(SEEN)
    del model.data_indices
    return iv.Posterior(prior, model, DATA.ravel()[SEEN], Noise())


@pytest.mark.parametrize("model", [Decay, DecayWithRows])
def test_the_likelihood_is_that_of_what_was_seen(model) -> None:
    posterior, short = iv.Posterior(PRIOR, model(), MASKED, iv.GaussianNoise("s")), only_seen()
    theta = PRIOR.sample(np.random.default_rng(0), 5)
    kept = np.concatenate([[0, 1], 2 + SEEN])
    value = posterior.log_likelihood(theta)
    assert not value[:, 1, 0].any() and not value[:, 2, 1].any()
    np.testing.assert_allclose(value.reshape(5, -1)[:, SEEN], short.log_likelihood(theta[:, kept]))

    potential, other = posterior.potential(), short.potential()
    assert potential.size == 6 and isinstance(potential, TermwisePotential)
    position = posterior.to_position(theta)
    energy, gradient = potential.energy_and_gradient(position)
    prior = -posterior.log_prior(theta) - posterior.coordinates.evaluate(position).log_jacobian
    np.testing.assert_allclose(energy, prior - value.sum(axis=(1, 2)))
    np.testing.assert_allclose(gradient[:, kept], other.energy_and_gradient(position[:, kept])[1])
    indices = np.stack([np.random.default_rng(i).permutation(6) for i in range(5)])
    terms, wanted = potential.terms(position, indices), other.terms(position[:, kept], indices)
    np.testing.assert_allclose(terms.energies, wanted.energies)
    np.testing.assert_allclose(terms.gradients[:, :, kept], wanted.gradients)
    np.testing.assert_allclose(terms.prior_energy + terms.energies.sum(axis=1), energy)
    groups = potential.group_terms(position, indices.reshape(5, 2, 3), np.ones((5, 2, 3)))
    np.testing.assert_allclose(groups.gradients, terms.gradients.reshape(5, 2, 3, -1).sum(axis=2))


def test_a_coarse_fidelity_may_miss_some_of_it() -> None:
    indices = np.array([5, 0, 3, 2])  # of which 2 and 5 were not seen
    posterior = iv.Posterior(PRIOR, {"coarse": Decay(indices), "fine": Decay()}, MASKED, iv.GaussianNoise("s"))
    theta = PRIOR.sample(np.random.default_rng(0), 3)
    fine, coarse = posterior.log_likelihood(theta).reshape(3, -1), posterior.log_likelihood(theta, "coarse")
    np.testing.assert_array_equal(np.flatnonzero(coarse[0]), [0, 3])
    np.testing.assert_allclose(coarse.reshape(3, -1)[:, [0, 3]], fine[:, [0, 3]])
    assert posterior.potential("coarse").size == 2 and posterior.potential().size == 6


def test_what_is_missing_is_predicted_with_its_noise(within) -> None:
    posterior = iv.Posterior(PRIOR, Decay(), MASKED, iv.GaussianNoise("s"))
    theta = np.tile(PRIOR.sample(np.random.default_rng(0), 1), (20_000, 1))
    y = posterior.predict(theta)
    noisy = posterior.sample_noise(np.random.default_rng(1), y, theta)
    scale = theta[0, 2:].reshape(4, 2)
    error = (noisy.std(axis=0) / scale - 1.0) * np.sqrt(2 * 20_000)
    assert within(error, 6.0)
    # those of other data
    assert not within((noisy.std(axis=0) / scale[::-1] - 1.0) * np.sqrt(2 * 20_000), 6.0)


def test_nan_is_missing_with_a_word() -> None:
    with pytest.warns(UserWarning, match="2 of 8 data are NaN: they are taken as missing"):
        warned = iv.Posterior(PRIOR, Decay(), DATA, iv.GaussianNoise("s"))
    silent = iv.Posterior(PRIOR, Decay(), MASKED, iv.GaussianNoise("s"))
    np.testing.assert_array_equal(warned.data, silent.data)
    assert "6 data (2 missing)" in repr(silent)
    with pytest.raises(ValueError, match="data must hold at least one number"):
        iv.Posterior(PRIOR, Decay(), np.full((4, 2), np.nan), iv.GaussianNoise("s"))
