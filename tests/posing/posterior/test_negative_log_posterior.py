"""The posterior's energy and gradient compared with its parts, with bounds and failures."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats
from waves import VARIANTS, Fragile, Waves, WavesWithRows, by_hand, mixed, start

import invsamp as iv
from invsamp.domains import HalfSpaces
from invsamp.posing.distributions.univariate import Gamma
from invsamp.posing.forward_models.adapters import with_jacobian
from invsamp.posing.noise.continuous import GaussianNoise, LogNormalNoise, StudentTNoise
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior


def test_energy_is_that_of_the_definitions() -> None:
    posterior = mixed()
    position = start(posterior)
    np.testing.assert_allclose(posterior.potential().energy(position), by_hand(posterior, position), rtol=1e-11)
    energy, _ = posterior.potential().energy_and_gradient(position)
    np.testing.assert_allclose(energy, by_hand(posterior, position), rtol=1e-11)


@pytest.mark.parametrize("name", VARIANTS)
def test_gradient_by_finite_differences(name: str) -> None:
    posterior = mixed(**VARIANTS[name])
    potential = posterior.potential()
    position = start(posterior)
    gradient = potential.energy_and_gradient(position)[1]
    h = 1e-6
    for column in range(8):
        move = h * np.eye(8)[column]
        slope = (potential.energy(position + move) - potential.energy(position - move)) / (2 * h)
        np.testing.assert_allclose(gradient[:, column], slope, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_batch_is_its_rows(name: str) -> None:
    potential = (posterior := mixed(**VARIANTS[name])).potential()
    position = start(posterior, 5)
    energy, gradient = potential.energy_and_gradient(position)
    for row in range(5):
        single, slope = potential.energy_and_gradient(position[row : row + 1])
        np.testing.assert_allclose(single, energy[row : row + 1], rtol=1e-12)
        np.testing.assert_allclose(slope, gradient[row : row + 1], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", VARIANTS)
def test_terms_add_up(name: str) -> None:
    potential = (posterior := mixed(**VARIANTS[name])).potential()
    position = start(posterior, 4)
    energy, gradient = potential.energy_and_gradient(position)
    everything = np.stack([np.random.default_rng(i).permutation(6) for i in range(4)])
    terms = potential.terms(position, everything)
    np.testing.assert_allclose(terms.prior_energy + terms.energies.sum(axis=1), energy, rtol=1e-11)
    np.testing.assert_allclose(terms.prior_gradient + terms.gradients.sum(axis=1), gradient, rtol=1e-9, atol=1e-10)
    # each chain has its own minibatch
    few = potential.terms(position, everything[:, 2:4])
    np.testing.assert_array_equal(few.energies, terms.energies[:, 2:4])
    np.testing.assert_allclose(few.gradients, terms.gradients[:, 2:4], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", VARIANTS)
def test_terms_of_groups_are_sums(name: str) -> None:
    """Of groups of three and two data; a place that does not count repeats an entry of its group."""
    potential = (posterior := mixed(**VARIANTS[name])).potential()
    position = start(posterior, 4)
    position[2, 0] = 5.0  # outside, but for the logit
    members = np.stack([[[0, 3, 5], [4, 1, 4]], [[2, 4, 2], [5, 0, 1]], [[0, 1, 2]] * 2, [[5, 3, 5], [1, 2, 0]]])
    counted = np.array([[[1, 1, 1], [1, 1, 0]], [[1, 1, 0], [1, 1, 1]], [[1, 1, 1]] * 2, [[1, 1, 0], [1, 1, 1]]])
    terms = potential.terms(position, members.reshape(4, 6))
    found = potential.group_terms(position, members, counted.astype(float))
    energies = (terms.energies.reshape(4, 2, 3) * counted).sum(axis=2)
    gradients = (terms.gradients.reshape(4, 2, 3, 8) * counted[..., None]).sum(axis=2)
    for part, wanted in zip(found, terms._replace(energies=energies, gradients=gradients), strict=True):
        np.testing.assert_allclose(part, wanted, rtol=1e-11, atol=1e-12)
    assert np.isinf(found.prior_energy[2]) == (name != "logit")


def test_groups_cost_one_product_each() -> None:
    class Counted(Waves):
        products = 0

        def linearize(self, theta: np.ndarray) -> tuple:
            y, vjp = super().linearize(theta)

            def counted(cotangent: np.ndarray) -> np.ndarray:
                self.products += 1
                return vjp(cotangent)

            return y, counted

    potential = (posterior := mixed(forward=(model := Counted()))).potential()
    potential.group_terms(start(posterior, 4), np.tile(np.arange(6).reshape(2, 3), (4, 1, 1)), np.ones((4, 2, 3)))
    assert (model.products, model.calls) == (2, 4)


@pytest.mark.parametrize(
    ("names", "noise"),
    [
        (None, LogNormalNoise("s")),
        (("s", "x"), StudentTNoise(4.0, "s")),
        (("h", "x", "g", "k"), GaussianNoise(np.linspace(0.2, 0.4, 6).reshape(3, 2))),
    ],
)
def test_terms_of_a_model_with_rows(names: tuple[str, ...] | None, noise: object) -> None:
    """The same numbers as from the whole model, which is not evaluated."""
    model = WavesWithRows(names)
    potential = (posterior := mixed(forward=model, noise=noise)).potential()
    position = start(posterior, 4)
    indices = np.stack([np.random.default_rng(i).permutation(6)[:3] for i in range(4)])
    expected = mixed(forward=Waves(names), noise=noise).potential().terms(position, indices)
    terms = potential.terms(position, indices)
    assert model.calls == 0 and model.evaluated == 12
    for found, wanted in zip(terms, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-13)


def test_rows_that_fail_have_infinite_energy() -> None:
    posterior = mixed(forward=WavesWithRows())
    position = start(posterior, 4)
    position[1, -1], position[2, -1] = 6.0, -6.0
    terms = posterior.potential().terms(position, np.tile([3, 0], (4, 1)))
    np.testing.assert_array_equal(terms.prior_energy == np.inf, [False, True, True, False])
    for part in (terms.prior_gradient, terms.energies, terms.gradients):
        assert not part[1:3].any() and part[0].any() and part[3].any()
    assert posterior.failure_message() == "RuntimeError: the mesh is torn"


@pytest.mark.parametrize("domain", [None, HalfSpaces([[1.0, 0, 0, 0, 0, 0, 0, 0]], [1.0])])
def test_the_model_is_not_called_outside(domain: object) -> None:
    model = Waves()
    posterior = mixed(forward=model, domain=domain)
    potential = posterior.potential()
    position = start(posterior, 4)
    position[1, 0] = 2.5
    position[2, 4] = np.nan
    inside = np.array([True, False, False, True])
    model.calls = 0
    energy, gradient = potential.energy_and_gradient(position)
    assert model.calls == 2
    assert np.isinf(potential.energy(position)).tolist() == np.isinf(energy).tolist() == (~inside).tolist()
    assert not gradient[~inside].any() and gradient[inside].any()
    np.testing.assert_allclose(energy[inside], by_hand(posterior, position[inside]), rtol=1e-11)
    model.calls = 0
    potential.energy_and_gradient(position[~inside])
    potential.energy(position[~inside])
    terms = potential.terms(position[~inside], np.zeros((2, 3), dtype=np.intp))
    assert model.calls == 0 and np.all(np.isinf(terms.prior_energy)) and not terms.gradients.any()


def test_energies_stay_usable_at_extreme_positions() -> None:
    potential = mixed(transforms={"x": "logit"}).potential()
    for size in (700.0, 1e4, np.inf):
        position = size * np.random.default_rng(0).choice([-1.0, 1.0], (50, 8))
        energy, gradient = potential.energy_and_gradient(position)
        assert not np.isnan(energy).any() and np.isfinite(gradient).all()
        assert not gradient[np.isinf(energy)].any()


@pytest.mark.parametrize("how", ["raise", "nan", "inf"])
def test_a_failed_solve_has_infinite_energy(how: str) -> None:
    posterior = mixed(forward={"coarse": Waves(), "fine": Fragile(how)})
    potential = posterior.potential()
    position = start(posterior, 20)
    failed = position[:, 4] < 0
    assert 0 < failed.sum() < 20
    energy, gradient = potential.energy_and_gradient(position)
    for found in (energy, potential.energy(position)):
        np.testing.assert_array_equal(found == np.inf, failed)
        np.testing.assert_allclose(found[~failed], by_hand(posterior, position[~failed]), rtol=1e-11)
    assert not gradient[failed].any()
    expected = potential.energy_and_gradient(position[~failed])[1]
    np.testing.assert_allclose(gradient[~failed], expected, rtol=1e-10, atol=1e-12)
    # the datum that shows the failure is not in the minibatch
    terms = potential.terms(position, np.full((20, 2), 3))
    np.testing.assert_array_equal(terms.prior_energy == np.inf, failed)
    assert not terms.energies[failed].any() and not terms.gradients[failed].any()
    message = {"raise": "RuntimeError: the mesh is torn"}.get(how, f"1 of 6 outputs are not finite: output 1 is {how}")
    assert posterior.failure_message() == message
    assert posterior.failure_message("coarse") is None
    np.testing.assert_array_equal(posterior.log_likelihood(posterior.to_theta(position))[failed, 0, 1], -np.inf)


def test_density_in_positions_is_the_posterior() -> None:
    """One unknown, all integrals by quadrature: the mean under exp(-energy) is that of the textbook posterior."""
    prior = Prior(x=Gamma(2.0, 1.0))
    model = with_jacobian(lambda t: t * t, lambda t: 2 * t[:, :, None])
    means = {}
    for transform in ("log", "identity"):
        posterior = Posterior(prior, model, [1.5], GaussianNoise(0.5), transforms={"x": transform})
        potential = posterior.potential()

        def weight(position: float, power: int, potential: object = potential, posterior: object = posterior) -> float:
            theta = posterior.to_theta([position])[0]
            return float(theta**power * np.exp(-potential.energy(np.array([[position]]))[0]))

        ends = (-8.0, 2.0) if transform == "log" else (0.0, 6.0)
        mass, first = (integrate.quad(weight, *ends, args=(power,), epsabs=1e-12)[0] for power in (0, 1))
        means[transform] = first / mass, mass

    def density(x: float) -> float:
        return float(stats.gamma(2).pdf(x) * stats.norm(x * x, 0.5).pdf(1.5))

    evidence = integrate.quad(density, 0, 6, epsabs=1e-12)[0]
    mean = integrate.quad(lambda x: x * density(x), 0, 6, epsabs=1e-12)[0] / evidence
    for found in means.values():
        np.testing.assert_allclose(found, (mean, evidence), rtol=1e-6)


def test_residuals_are_in_sds_of_the_noise():
    data = np.array([1.0, np.nan, 4.0, 0.0])
    prior = iv.Prior(a=iv.Normal(0.0, 1.0), s=iv.LogNormal(0.0, 1.0))
    model = iv.with_jacobian(
        lambda t: np.tile(2.0 + t[:, :1], (1, 4)), lambda t: np.tile([1.0, 0.0], (len(t), 4, 1)), parameters=("a", "s")
    )
    at = np.array([[0.0, np.log(0.5)], [1.0, 0.0]])

    def residuals(noise):
        return iv.Posterior(prior, model, np.ma.masked_invalid(data), noise).potential().residuals(at)

    off = data - np.array([[2.0], [3.0]])
    assert np.allclose(residuals(iv.GaussianNoise("s")), off / [[0.5], [1.0]], equal_nan=True)
    # twice the log of the likelihood's ratio to that of an exact prediction; none of no counts exactly predicted
    deviance = np.sqrt(2.0 * (4.0 * np.log(4.0 / 2.0) - 2.0))
    counts = residuals(iv.PoissonNoise())
    assert counts[0, 2] == pytest.approx(deviance)
    assert counts[0, 0] == pytest.approx(-np.sqrt(2.0 * (np.log(0.5) + 1.0)))
    assert np.isnan(residuals(iv.GaussianNoise(1.0, covariance=np.eye(4)))).all()
