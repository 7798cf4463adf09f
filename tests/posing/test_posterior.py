"""The posterior's energy and gradient against its parts, and what it does with walls, failures and bad input."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import integrate, stats

from invsamp.contract import Potential, Problem, TermwisePotential
from invsamp.domains import Ball, Box, HalfSpaces, LevelSet, Polygon, Product, Unbounded, constraint
from invsamp.posing.adapters import with_jacobian
from invsamp.posing.distributions import (
    Cauchy,
    Gamma,
    HalfNormal,
    LogNormal,
    MultivariateNormal,
    Normal,
    Uniform,
)
from invsamp.posing.noise import GaussianNoise, LogNormalNoise, StudentTNoise
from invsamp.posing.posterior import Posterior
from invsamp.posing.prior import Prior
from invsamp.posing.transforms import Identity, Log, Logit
from invsamp.posing.truncation import truncated
from invsamp.presets import mala, relangevin

MIXING = np.random.default_rng(7).normal(size=(6, 6))


class Waves:
    """y = exp(0.3 sin(A theta)) in 6 numbers, from any number of columns."""

    def __init__(self, parameters: tuple[str, ...] | None = None, gain: float = 0.3) -> None:
        self.gain = gain
        self.calls = 0
        if parameters is not None:
            self.parameters = parameters

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        self.calls += len(theta)
        return np.exp(self.gain * np.sin(theta @ MIXING[:, : theta.shape[1]].T))

    def linearize(self, theta: np.ndarray) -> tuple:
        phase = theta @ MIXING[:, : theta.shape[1]].T
        y = self(theta)
        slope = np.where(np.isfinite(y), y, 0.0) * self.gain * np.cos(phase)
        return y, lambda c: (c * slope) @ MIXING[:, : theta.shape[1]]


class WavesWithJacobian(Waves):
    def jacobian(self, theta: np.ndarray) -> tuple:
        phase = theta @ MIXING[:, : theta.shape[1]].T
        y = self(theta)
        return y, (y * self.gain * np.cos(phase))[:, :, None] * MIXING[:, : theta.shape[1]]


class WavesWithRows(Waves):
    """Evaluates chosen data only; the whole is out of bounds."""

    def __init__(self, parameters: tuple[str, ...] | None = None) -> None:
        super().__init__(parameters)
        self.evaluated = 0

    def rows(self, theta: np.ndarray, indices: np.ndarray) -> tuple:
        self.evaluated += indices.size
        if np.any(theta[:, -1] > 5.0):
            raise RuntimeError("the mesh is torn")
        mixing = MIXING[indices][:, :, : theta.shape[1]]
        phase = (mixing @ theta[:, :, None])[:, :, 0]
        y = np.exp(self.gain * np.sin(phase))
        y[theta[:, -1] < -5.0, 0] = np.nan
        return y, (y * self.gain * np.cos(phase))[:, :, None] * mixing


DATA = np.random.default_rng(8).uniform(0.7, 1.4, (3, 2))


def mixed_prior() -> Prior:
    return Prior(
        x=Uniform(-1, 2),
        s=LogNormal(-1, 0.5, shape=2),
        k=truncated(Normal(1, 0.5), lower=0.2),
        c=Cauchy(0, 1),
        g=Gamma(2.0, 1.0),
        h=MultivariateNormal([0, 0], [[1, 0.3], [0.3, 1]]),
    )


def mixed(**settings: object) -> Posterior:
    arguments = {"forward": Waves(), "noise": LogNormalNoise("s"), "data": DATA} | settings
    return Posterior(mixed_prior(), **arguments)


def by_hand(posterior: Posterior, position: np.ndarray, gain: float = 0.3) -> np.ndarray:
    """Energy from the definitions, with scipy for the likelihood."""
    theta = posterior.to_theta(position)
    values = posterior.prior.unpack(theta)
    columns = np.delete(np.arange(8), [1, 2])
    y = np.exp(gain * np.sin(theta[:, columns] @ MIXING.T)).reshape(-1, 3, 2)
    likelihood = stats.lognorm(values["s"][:, None, :], scale=y).logpdf(DATA).sum(axis=(1, 2))
    jacobian = posterior.coordinates.evaluate(position).log_jacobian
    return -(likelihood + posterior.prior.log_density(theta) + jacobian)


def start(posterior: Posterior, n: int = 6, seed: int = 0) -> np.ndarray:
    return posterior.sample_start(np.random.default_rng(seed), n)


def test_protocols() -> None:
    posterior = mixed()
    assert isinstance(posterior, Problem)
    assert isinstance(posterior.potential(), Potential) and isinstance(posterior.potential(), TermwisePotential)
    assert posterior.fidelities == ("model",) and posterior.dimension == posterior.potential().dimension == 8
    assert posterior.potential().size == 6
    assert dict(posterior.shapes) == {"x": (), "s": (2,), "k": (), "c": (), "g": (), "h": (2,)}


def test_energy_is_that_of_the_definitions() -> None:
    posterior = mixed()
    position = start(posterior)
    np.testing.assert_allclose(posterior.potential().energy(position), by_hand(posterior, position), rtol=1e-11)
    energy, _ = posterior.potential().energy_and_gradient(position)
    np.testing.assert_allclose(energy, by_hand(posterior, position), rtol=1e-11)


VARIANTS = {
    "log_normal": {},
    "student_t": {"noise": StudentTNoise(4.0, "s")},
    "known_scale": {"noise": GaussianNoise(0.3), "forward": Waves(("x", "k", "c", "g", "h"))},
    "scale_per_datum": {"noise": GaussianNoise(np.full((3, 2), 0.3)), "forward": Waves(("h", "x", "g", "k"))},
    "scale_in_the_model": {"forward": Waves(("s", "x"))},
    "logit": {"transforms": {"x": "logit", "g": "identity"}},
    "log": {"transforms": {"x": "log"}},
    "polygon": {"domain": Product({("k", "g"): Polygon([[0, 0], [2, 0], [2, 3], [1, 1], [0, 3]])})},
    "half_spaces": {"domain": HalfSpaces([[1, 0, 0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1, 0, 0]], [2.5, 3.0])},
    "jacobian": {"forward": WavesWithJacobian()},
}


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


def test_default_coordinates_and_walls() -> None:
    posterior = mixed()
    assert posterior.coordinates.transforms == (
        Identity(), Log(), Log(), Log(0.2), Identity(), Log(), Identity(), Identity()
    )  # fmt: skip
    inf = np.inf
    assert posterior.sampling_domain == Box([-1] + [-inf] * 7, [2] + [inf] * 7)
    assert Posterior(Prior(x=HalfNormal(1)), Waves(), DATA, GaussianNoise(1)).sampling_domain == Unbounded()
    position = start(posterior, 50)
    np.testing.assert_allclose(posterior.to_position(posterior.to_theta(position)), position, rtol=1e-10, atol=1e-12)


def test_chosen_coordinates() -> None:
    posterior = mixed(transforms={"x": "logit", "k": "identity", "s": "log"})
    assert posterior.coordinates.transforms[0] == Logit(-1.0, 2.0)
    assert posterior.coordinates.transforms[3] == Identity()
    assert posterior.sampling_domain == Box([-np.inf] * 3 + [0.2] + [-np.inf] * 4, np.inf)
    # a log coordinate on an interval keeps the upper end as a wall
    walls = mixed(transforms={"x": "log"}).sampling_domain
    np.testing.assert_allclose(walls.upper[0], np.log(3.0))


def test_constrained_columns_are_sampled_as_themselves() -> None:
    domain = HalfSpaces([[0, 0, 0, 1.0, 0, 1.0, 0, 0]], [3.0])  # k + g <= 3
    posterior = mixed(domain=domain)
    assert posterior.coordinates.transforms[3] == posterior.coordinates.transforms[5] == Identity()
    assert posterior.coordinates.transforms[1] == Log()
    theta = posterior.to_theta(start(posterior, 200))
    assert np.all(theta[:, 3] + theta[:, 5] <= 3.0)
    inside = np.zeros((4, 8))
    inside[:, 3], inside[:, 5] = [1.0, 0.1, 1.0, 2.0], [1.0, 1.0, -0.1, 1.5]
    # the supports of k (above 0.2) and g (positive) have become walls
    assert posterior.sampling_domain.contains(inside).tolist() == [True, False, False, False]


def test_constraints_and_domains_by_name() -> None:
    posterior = mixed(domain=[constraint("k + g < 3"), Product({("x", "c"): Ball([0.0, 0.0], 1.5)})])
    wall = HalfSpaces([[0, 0, 0, 1.0, 0, 1.0, 0, 0]], [3.0])
    assert posterior.domain == wall & Product({(0, 4): Ball([0.0, 0.0], 1.5)})
    # s is the only column with a support that nothing else constrains
    assert [type(t).__name__ for t in posterior.coordinates.transforms][:6] == ["Identity", "Log", "Log"] + [
        "Identity"
    ] * 3
    theta = posterior.to_theta(start(posterior, 500))
    assert (theta[:, 3] + theta[:, 5] < 3).all() and (theta[:, [3, 5]] > [0.2, 0]).all()
    assert (theta[:, 0] ** 2 + theta[:, 4] ** 2 <= 2.25).all() and (theta[:, 0] >= -1).all()
    assert posterior.support.contains(theta).all()
    assert mixed(domain=constraint("s[0] < s[1]")).domain.constrains(8).tolist() == [False, True, True] + [False] * 5
    assert mixed(domain=constraint("h[0] < 1") & constraint("x > 0")).dimension == 8


def test_level_set_among_the_supports() -> None:
    def gradient(x: np.ndarray) -> np.ndarray:
        return np.column_stack([2 * x[:, 0], -np.ones(len(x))])

    parabola = LevelSet(lambda x: x[:, 0] ** 2 - x[:, 1], gradient, 2)  # x^2 < k
    posterior = mixed(domain=Product({("x", "k"): parabola}))
    position = start(posterior, 300)
    rng = np.random.default_rng(0)
    for _ in range(5):
        position = posterior.sampling_domain.reflect(position, 0.3 * rng.normal(size=position.shape)).position
    theta = posterior.to_theta(position)
    assert (theta[:, 0] ** 2 <= theta[:, 3]).all() and (theta[:, 3] >= 0.2).all() and (theta[:, 0] <= 2).all()


def test_without_domain_keeps_coordinates_and_supports() -> None:
    posterior = mixed(domain=constraint("k + g < 3"))
    free = posterior.without_domain()
    assert free.domain == Unbounded() and free.coordinates is posterior.coordinates
    assert free.sampling_domain == Box([-1, -np.inf, -np.inf, 0.2, -np.inf, 0] + [-np.inf] * 2, [2] + [np.inf] * 7)
    assert posterior.domain != Unbounded() and isinstance(posterior.sampling_domain, HalfSpaces)
    position = start(posterior, 5)
    energy, gradient = posterior.potential().energy_and_gradient(position)
    np.testing.assert_array_equal(free.potential().energy_and_gradient(position)[0], energy)
    np.testing.assert_array_equal(free.potential().energy_and_gradient(position)[1], gradient)
    position[:, 5] = 4.0
    assert (posterior.potential().energy(position) == np.inf).all()
    assert np.isfinite(free.potential().energy(position)).all()


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


class Fragile(WavesWithJacobian):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        failed = theta[:, 2] < 0
        if failed.any() and self.how == "raise":
            raise RuntimeError("the mesh is torn")
        y = super().__call__(theta)
        y[failed, 1] = {"nan": np.nan, "inf": np.inf, "raise": 0.0}[self.how]
        return y


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
    assert posterior.failure_message() == ("RuntimeError: the mesh is torn" if how == "raise" else None)
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


def test_start_covers_the_prior() -> None:
    posterior = Posterior(Prior(x=LogNormal(0.5, 0.4)), Waves(), DATA, GaussianNoise(1.0))
    position = start(posterior, 3000)
    # false-alarm rate 1e-4; the control takes theta for the position
    assert stats.kstest(position[:, 0], stats.norm(0.5, 0.4).cdf).pvalue > 1e-4
    assert stats.kstest(posterior.to_theta(position)[:, 0], stats.norm(0.5, 0.4).cdf).pvalue < 1e-4


def test_start_far_from_the_prior_is_refused() -> None:
    posterior = Posterior(Prior(x=Normal(0, 1)), Waves(), DATA, GaussianNoise(1.0), domain=Box(8.0, 9.0))
    with pytest.raises(ValueError, match="domain must overlap the prior: 0 of 50100 prior draws"):
        start(posterior)


def test_models_get_their_columns() -> None:
    prior = Prior(a=Normal(0, 1), v=Normal(0, 1, shape=2), b=Normal(0, 1), s=HalfNormal(1.0))
    coarse, fine = Waves(("b", "a")), Waves()
    posterior = Posterior(prior, {"coarse": coarse, "fine": fine}, DATA, GaussianNoise("s"))
    theta = np.array([[1.0, 2.0, 3.0, 4.0, 0.5]])
    np.testing.assert_array_equal(posterior.predict(theta, "coarse"), coarse(np.array([[4.0, 1.0]])).reshape(1, 3, 2))
    np.testing.assert_array_equal(posterior.predict(theta), fine(theta[:, :4]).reshape(1, 3, 2))
    values = {"a": 1.0, "v": [2.0, 3.0], "b": 4.0, "s": 0.5}
    np.testing.assert_array_equal(posterior.predict(values), posterior.predict(theta[0]))
    assert posterior.potential("coarse").energy(posterior.to_position(theta)) != posterior.potential().energy(
        posterior.to_position(theta)
    )
    expected = stats.norm(posterior.predict(theta), 0.5).logpdf(DATA)
    np.testing.assert_allclose(posterior.log_likelihood(theta), expected)


def test_fresh_noise() -> None:
    posterior = mixed()
    theta = np.repeat(posterior.prior.sample(np.random.default_rng(0), 1), 4000, axis=0)
    y = posterior.predict(theta)
    noisy = posterior.sample_noise(np.random.default_rng(1), y, theta)
    assert noisy.shape == (4000, 3, 2)
    z = np.log(noisy / y) / theta[:, None, 1:3]
    # false-alarm rate 1e-4; the control takes the other column's scale
    assert stats.kstest(z[:, 1, 0], stats.norm.cdf).pvalue > 1e-4
    wrong = np.log(noisy / y)[:, 1, 0] / theta[:, 2]
    assert stats.kstest(wrong, stats.norm.cdf).pvalue < 1e-4


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


def test_pickle_and_print() -> None:
    posterior = mixed()
    again = pickle.loads(pickle.dumps(posterior))
    position = start(posterior)
    np.testing.assert_array_equal(again.potential().energy(position), posterior.potential().energy(position))
    assert repr(posterior).startswith("Posterior(8 parameters ['x', 's[0]', 's[1]', 'k', 'c', 'g', 'h[0]', 'h[1]'], 6")


def test_wrong_number_of_observations_is_a_mistake() -> None:
    posterior = mixed(data=np.ones((4, 2)))
    with pytest.raises(ValueError, match=r"'model' must have shape \(6, 8\), got \(6, 6\)"):
        posterior.potential().energy_and_gradient(start(posterior))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data": [1.0, np.nan]}, r"data must be finite, got nan at index \(1,\)"),
        ({"data": ["a"]}, "data must be an array of real numbers"),
        ({"noise": LogNormalNoise("q")}, r"scale must use the prior's parameters .* got \['q'\]"),
        ({"forward": {}}, "forward must hold at least one model"),
        ({"forward": np.sin}, r"forward\['model'\] must be callable and have linearize"),
        ({"forward": {"a": Waves(("x", "z"))}}, r"forward\['a'\].parameters must use .* got \['z'\]"),
        ({"forward": Waves(("x", "x"))}, r"forward\['model'\].parameters must not repeat a name"),
        ({"transforms": {"z": "log"}}, r"transforms must use the prior's parameters .* got \['z'\]"),
        ({"transforms": {"x": "sqrt"}}, r"transforms\['x'\] must be 'identity', 'log' or 'logit', got 'sqrt'"),
        ({"transforms": {"c": "log"}}, r"transforms\['c'\] is 'log': its support must be bounded below"),
        ({"transforms": {"g": "logit"}}, r"transforms\['g'\] is 'logit': its support must be finite"),
        ({"domain": Box([0.0] * 3, [1.0] * 3)}, "Box has 3 coordinates"),
        ({"domain": "k > 1"}, "domain must be a Domain, a constraint"),
        ({"domain": constraint("q > 1")}, "names 'q', which is none of"),
        ({"domain": [constraint("k > 1"), constraint("k < 0.5")]}, "leave an interior"),
        ({"domain": constraint("k > 1"), "transforms": {"k": "log"}}, "the domain constrains k"),
        (
            {"domain": HalfSpaces([[0, 0, 0, 1.0, 0, 0, 0, 0]], [3.0]), "transforms": {"k": "log"}},
            r"transforms\['k'\] must be 'identity', got 'log': the domain constrains k",
        ),
    ],
)
def test_bad_input(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mixed(**settings)


def test_bad_calls() -> None:
    posterior = mixed()
    with pytest.raises(ValueError, match=r"fidelity must be one of \['model'\], got 'fine'"):
        posterior.potential("fine")
    with pytest.raises(ValueError, match=r"theta must have shape \(batch, 8\), got \(1, 3\)"):
        posterior.predict([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"y must have shape \(1, 3, 2\), got \(1, 6\)"):
        posterior.sample_noise(np.random.default_rng(0), np.ones((1, 6)), np.ones(8))
    with pytest.raises(ValueError, match="prior must be a Prior"):
        Posterior({"x": Normal(0, 1)}, Waves(), DATA, GaussianNoise(1.0))


class Line:
    """y = (a + b t) at the times asked for; a coarse one is off by a factor and says which data it predicts."""

    def __init__(self, times: object, data_indices: object = None, factor: float = 1.0) -> None:
        self.design = factor * np.stack([np.ones_like(times), np.asarray(times, dtype=float)], axis=1)
        self.data_indices, self.n_observations = data_indices, len(self.design)

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        return theta @ self.design.T

    def linearize(self, theta: np.ndarray) -> tuple:
        return self(theta), lambda cotangent: cotangent @ self.design


class TestPartOfTheData:
    TIMES = np.linspace(-1.0, 1.0, 8)
    DATA = 1.0 + 0.5 * TIMES + 0.3 * np.random.default_rng(0).standard_normal(8)

    def posterior(self, indices: object, coarse_times: object, fine_times: object = TIMES, shape: object = 8):
        forward = {"coarse": Line(coarse_times, indices, 1.05), "fine": Line(fine_times)}
        prior = Prior(a=Normal(0.0, 10.0), b=Normal(0.0, 10.0))
        return Posterior(prior, forward, self.DATA.reshape(shape), GaussianNoise(0.3))

    def test_a_coarse_rung_on_it_leaves_the_cold_rung_exact(self, draw, agrees) -> None:
        """Moments of the cold rung against the Gaussian posterior; the control samples the coarse energy."""
        posterior = self.posterior(np.array([5, 1, 2]), self.TIMES[[5, 1, 2]], shape=(2, 4))
        precision = Line(self.TIMES).design.T @ Line(self.TIMES).design / 0.09 + np.eye(2) / 100.0
        covariance = np.linalg.inv(precision)
        mean = covariance @ (Line(self.TIMES).design.T @ self.DATA) / 0.09
        truth = [*mean, *(np.diag(covariance) + mean**2)]

        def moments(run):
            return np.concatenate([run.theta.mean(axis=1), (run.theta**2).mean(axis=1)], axis=1)

        run = draw(posterior, relangevin((1.0, 1.5), swap_fraction=0.5), draws=200, warmup=200, chains=128)
        assert run.report["swap_accepts"][0] > 1000
        assert agrees(moments(run), truth)
        assert not agrees(moments(draw(posterior, mala(fidelity="coarse"), draws=200, warmup=200, chains=128)), truth)

    @pytest.mark.parametrize("indices", [[0, 0, 1], [0, 1, 8], [0.0, 1.0, 2.0], [[0, 1, 2]], [-1, 0, 1]])
    def test_indices_must_be_of_the_data(self, indices: object) -> None:
        with pytest.raises(
            ValueError, match=r"forward\['coarse'\].data_indices must be distinct indices of the 8 data"
        ):
            self.posterior(indices, self.TIMES[:3])

    def test_numbers_of_observations_must_fit(self) -> None:
        with pytest.raises(ValueError, match="observations of the forward model 'coarse': it has 4, got 3 data"):
            self.posterior([0, 1, 2], self.TIMES[:4])
        with pytest.raises(ValueError, match=r"'fine': it has 3, got 8 data \(shape \(8,\)\)"):
            self.posterior([0, 1, 2], self.TIMES[:3], self.TIMES[:3])
