"""The posterior: columns, data and noise of its models, starts, what it prints and what it refuses."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import stats
from targets import kolmogorov
from waves import DATA, Waves, mixed, start

import invsamp as iv
from invsamp.domains import Box, HalfSpaces, constraint
from invsamp.posing.distributions.univariate import HalfNormal, LogNormal, Normal
from invsamp.posing.noise.continuous import GaussianNoise, LogNormalNoise
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior
from invsamp.protocols import Potential, Problem, TermwisePotential
from invsamp.samplers import mala, parallel_tempering


def test_protocols() -> None:
    posterior = mixed()
    assert isinstance(posterior, Problem)
    assert isinstance(posterior.potential(), Potential) and isinstance(posterior.potential(), TermwisePotential)
    assert posterior.fidelities == ("model",) and posterior.dimension == posterior.potential().dimension == 8
    assert posterior.potential().size == 6
    assert dict(posterior.shapes) == {"x": (), "s": (2,), "k": (), "c": (), "g": (), "h": (2,)}


def test_start_covers_the_prior(within) -> None:
    posterior = Posterior(Prior(x=LogNormal(0.5, 0.4)), Waves(), DATA, GaussianNoise(1.0))
    position = start(posterior, 3000)
    # the control takes theta for the position
    assert within(*kolmogorov(position[:, 0], stats.norm(0.5, 0.4).cdf))
    assert not within(*kolmogorov(posterior.to_theta(position)[:, 0], stats.norm(0.5, 0.4).cdf))


def test_start_far_from_the_prior() -> None:
    posterior = Posterior(Prior(x=Normal(0, 1)), Waves(), DATA, GaussianNoise(1.0), domain=Box(8.0, 9.0))
    position = start(posterior, 100)
    assert ((position >= 8.0) & (position <= 9.0)).all() and np.median(position) < 8.2


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


def test_fresh_noise(within) -> None:
    posterior = mixed()
    theta = np.repeat(posterior.prior.sample(np.random.default_rng(0), 1), 4000, axis=0)
    theta[:, 1:3] = 0.3, 0.6
    y = posterior.predict(theta)
    noisy = posterior.sample_noise(np.random.default_rng(1), y, theta)
    assert noisy.shape == (4000, 3, 2)
    z = np.log(noisy / y) / theta[:, None, 1:3]
    # the control takes the other column's scale
    assert within(*kolmogorov(z[:, 1, 0], stats.norm.cdf))
    wrong = np.log(noisy / y)[:, 1, 0] / theta[:, 2]
    assert not within(*kolmogorov(wrong, stats.norm.cdf))


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
        ({"data": [1.0, np.inf]}, r"data must be positive under LogNormalNoise, got inf at index \(1,\)"),
        ({"data": ["a"]}, "data must be numbers, got"),
        ({"noise": LogNormalNoise("q")}, r"scale must use the prior's parameters .* got \['q'\]"),
        ({"forward": {}}, "forward must hold at least one model"),
        ({"forward": 3.0}, r"forward\['model'\] must be a function or a forward model, got 3.0"),
        ({"forward": {"a": Waves(("x", "z"))}}, r"forward\['a'\].parameters must use .* got \['z'\]"),
        ({"forward": Waves(("x", "x"))}, r"forward\['model'\].parameters must not repeat a name"),
        ({"transforms": {"z": "log"}}, r"transforms must use the prior's parameters .* got \['z'\]"),
        ({"transforms": {"x": "sqrt"}}, r"transforms\['x'\] must be 'identity', 'log' or 'logit', got 'sqrt'"),
        ({"transforms": {"c": "log"}}, r"transforms\['c'\] is 'log': its support must be bounded below"),
        ({"transforms": {"g": "logit"}}, r"transforms\['g'\] is 'logit': its support must be finite"),
        ({"domain": Box([0.0] * 3, [1.0] * 3)}, "Box has 3 coordinates"),
        ({"domain": "k"}, "domain must be a Domain, a constraint"),
        ({"domain": constraint("q > 1")}, "names 'q', which is none of"),
        ({"domain": [constraint("k > 1"), constraint("k < 0.5")]}, "no parameters satisfy it"),
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
    with pytest.raises(ValueError, match=r"fidelity must be one of 'model', got 'fine'"):
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
    DATA = 1.0 + 0.5 * TIMES + [0.04, -0.04, 0.19, 0.03, -0.16, 0.11, 0.39, 0.28]  # the same for all seeds

    def posterior(
        self, indices: object, coarse_times: object, fine_times: object = TIMES, shape: object = 8, scale: object = 0.3
    ) -> Posterior:
        forward = {"coarse": Line(coarse_times, indices, 1.05), "fine": Line(fine_times)}
        unknown = {scale: LogNormal(0.0, 1.0, shape=shape)} if isinstance(scale, str) else {}
        prior = Prior(a=Normal(0.0, 10.0), b=Normal(0.0, 10.0), **unknown)
        return Posterior(prior, forward, self.DATA.reshape(shape), GaussianNoise(scale))

    @pytest.mark.parametrize("scale", [np.linspace(0.1, 0.8, 8).reshape(2, 4), "s"], ids=["known", "unknown"])
    def test_a_coarse_fidelity_is_compared_with_its_own_data(self, scale: object) -> None:
        chosen = [5, 1, 2]
        posterior = self.posterior(np.array(chosen), self.TIMES[chosen], shape=(2, 4), scale=scale)
        theta = posterior.prior.sample(np.random.default_rng(0), 3)
        sds = theta[:, 2:] if isinstance(scale, str) else np.tile(scale.ravel(), (3, 1))
        y, wanted = np.full((3, 8), np.nan), np.zeros((3, 8))
        y[:, chosen] = 1.05 * (theta[:, :1] + theta[:, 1:2] * self.TIMES[chosen])
        wanted[:, chosen] = stats.norm(y[:, chosen], sds[:, chosen]).logpdf(self.DATA[chosen])
        np.testing.assert_allclose(posterior.predict(theta, "coarse"), y.reshape(3, 2, 4), rtol=1e-12)
        np.testing.assert_allclose(posterior.log_likelihood(theta, "coarse"), wanted.reshape(3, 2, 4), rtol=1e-12)
        position = posterior.to_position(theta)
        difference = posterior.potential("fine").energy(position) - posterior.potential("coarse").energy(position)
        whole = posterior.log_likelihood(theta).reshape(3, 8).sum(axis=1)
        np.testing.assert_allclose(difference, wanted.sum(axis=1) - whole, rtol=1e-9)

    def test_a_coarse_rung_on_it_leaves_the_cold_rung_exact(self, draw, agrees) -> None:
        """Moments of the cold rung against the Gaussian posterior; the control samples the coarse energy."""
        posterior = self.posterior(np.array([5, 1, 2]), self.TIMES[[5, 1, 2]], shape=(2, 4))
        precision = Line(self.TIMES).design.T @ Line(self.TIMES).design / 0.09 + np.eye(2) / 100.0
        covariance = np.linalg.inv(precision)
        mean = covariance @ (Line(self.TIMES).design.T @ self.DATA) / 0.09
        truth = [*mean, *(np.diag(covariance) + mean**2)]

        def moments(run):
            return np.concatenate([run.theta.mean(axis=1), (run.theta**2).mean(axis=1)], axis=1)

        run = draw(posterior, parallel_tempering((1.0, 1.5), swap_fraction=0.5), draws=200, warmup=200, chains=128)
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

    def test_wrong_data_are_reported_before_the_noise_is_evaluated(self) -> None:
        prior = iv.Prior(z=iv.Normal(0, 1, shape=2), w=iv.Normal(0, 1), sd=iv.LogNormal(0, 1, shape=2))
        with pytest.raises(ValueError, match=r"it has 1, got 3 data \(shape \(3,\)\)"):
            iv.Posterior(prior, Pair(), np.ones(3), iv.LogNormalNoise("sd"))


class Pair:
    parameters, sizes, n_observations = ("z", "w"), (2, 1), 1

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        return theta[:, :1]

    def linearize(self, theta: np.ndarray) -> object:
        raise NotImplementedError


@pytest.mark.parametrize("given", [(), 3, (2, 2)])
def test_vectors_are_as_long_as_the_model_takes_them(given: object) -> None:
    data, noise = [1.0], iv.GaussianNoise(1.0)
    iv.Posterior(iv.Prior(w=iv.Normal(0, 1), z=iv.Normal(0, 1, shape=2)), Pair(), data, noise)
    count = int(np.prod(given))
    with pytest.raises(ValueError, match=rf"give 'z' shape=2, as forward\['model'\] takes it, got {count} entr"):
        iv.Posterior(iv.Prior(w=iv.Normal(0, 1), z=iv.Normal(0, 1, shape=given)), Pair(), data, noise)
    with pytest.raises(ValueError, match="give 'w' one number"):
        iv.Posterior(iv.Prior(z=iv.Normal(0, 1, shape=2), w=iv.Normal(0, 1, shape=2)), Pair(), data, noise)


class TestForPrediction:
    """Predictions of what was not measured."""

    @staticmethod
    def lines(times, **settings):
        at = np.asarray(times, dtype=float)
        return iv.with_jacobian(
            lambda t: t[:, :1] + t[:, 1:] * at,
            lambda t: np.tile(np.stack([np.ones_like(at), at], axis=1), (len(t), 1, 1)),
            parameters=("start", "slope"),
        )

    prior = iv.Prior(start=iv.Normal(0, 1), slope=iv.Normal(0, 1), sd=iv.HalfNormal(1))

    def posterior(self, noise):
        return iv.Posterior(self.prior, self.lines([0.0, 1.0, 2.0]), [0.1, 1.2, 1.9], noise)

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_at_other_times(self, within) -> None:
        posterior = self.posterior(iv.GaussianNoise("sd"))
        run = iv.sample(posterior, draws=400, chains=4, seed=2, progress=False)
        later = posterior.for_prediction(self.lines([10.0, 20.0]), 2)
        found = run.posterior_predictive(later)
        rows = run.theta[:, found["draw"].to_numpy()]
        np.testing.assert_allclose(found["mean"], rows[..., :1] + rows[..., 1:2] * [10.0, 20.0])
        z = ((found["data"] - found["mean"]).to_numpy() / rows[..., 2:]).ravel()
        assert within((z**2).mean() - 1.0, 4.5 * np.sqrt(2 / z.size))
        assert not within((0.5 * z**2).mean() - 1.0, 4.5 * np.sqrt(2 / z.size))
        assert "posterior_predictive" not in run.data
        run.posterior_predictive(posterior)
        assert run.data.posterior_predictive["data"].shape[2:] == (3,)
        np.testing.assert_array_equal(later.predict([[1.0, 2.0, 0.5]]), [[21.0, 41.0]])

    def test_with_another_noise(self) -> None:
        posterior = self.posterior(iv.GaussianNoise([0.1, 0.2, 0.3]))
        with pytest.raises(ValueError, match=r"scale must broadcast to the data's shape \(2,\), got shape \(3,\)"):
            posterior.for_prediction(self.lines([10.0, 20.0]), 2)
        counts = posterior.for_prediction(self.lines([10.0, 20.0]), (2, 1), iv.PoissonNoise())
        drawn = counts.sample_noise(np.random.default_rng(0), counts.predict([[1.0, 2.0, 0.5]]), [[1.0, 2.0, 0.5]])
        assert drawn.shape == (1, 2, 1) and (drawn == np.rint(drawn)).all()

    def test_the_shape_that_was_meant_is_reported(self) -> None:
        class Lines:
            n_observations, parameters = 6, ("start", "slope")

            def __call__(self, theta):
                return np.ones((len(theta), 6))

            def linearize(self, theta):
                return self(theta), lambda cotangent: np.zeros((len(theta), 2))

        noise = iv.GaussianNoise([0.1, 0.2])
        prior = iv.Prior(start=iv.Normal(0, 1), slope=iv.Normal(0, 1))
        posed = iv.Posterior(prior, Lines(), np.ones((3, 2)), noise)
        with pytest.raises(ValueError, match=r"scale must broadcast .*\(6,\), got shape \(2,\).*: shape=\(3, 2\)"):
            posed.for_prediction(Lines())
        assert posed.for_prediction(Lines(), (3, 2)).data.shape == (3, 2)

    def test_what_is_missing_is_reported(self) -> None:
        with pytest.raises(ValueError, match="shape must be given for a model without n_observations"):
            self.posterior(iv.GaussianNoise(1)).for_prediction(self.lines([1.0]))
        with pytest.raises(ValueError, match="noise must be given, as the posterior has a log likelihood in its place"):
            iv.Posterior(self.prior, log_likelihood=lambda t: t[:, 0]).for_prediction(self.lines([1.0]), 1)


class Arranged:
    """Two times, three sensors."""

    n_observations, output_shape = 6, (2, 3)

    def __call__(self, theta):
        return np.tile(theta, 6)


@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (6,), (2, 3, 1), (1, 6)])
def test_data_are_arranged_as_the_outputs(shape) -> None:
    def pose(model):
        return Posterior(Prior(x=Normal(0, 1)), model, np.zeros(shape), GaussianNoise(1.0))

    if shape == (3, 2):
        for model in (Arranged(), iv.finite_differences(Arranged())):
            with pytest.raises(ValueError, match=r"as the outputs of the forward model 'model', \(2, 3\), got shape"):
                pose(model)
    else:
        assert pose(Arranged()).predict([[0.5]]).shape == (1, *shape)
    # a model that says nothing of a shape is flat
    assert pose(lambda theta: np.tile(theta, 6)).predict([[0.5]]).shape == (1, *shape)


def test_a_network_is_no_function_of_arrays() -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Linear(1, 2)
    with pytest.raises(ValueError, match=r"the torch.nn.Module Linear: wrap it by iv.from_torch.*module_posterior"):
        Posterior(Prior(x=Normal(0, 1)), net, np.zeros(2), GaussianNoise(1.0))
    with pytest.raises(ValueError, match=r"got Linear\. The posterior of its weights is invsamp.torch.module"):
        iv.sample(net)
    wrapped = Posterior(Prior(x=Normal(0, 1)), iv.from_torch(net.double()), np.zeros(2), GaussianNoise(1.0))
    assert wrapped.check_gradient().passed


class TestLogDensity:
    """For other software: the density of theta with its gradient, and that of positions."""

    def posterior(self) -> iv.Posterior:
        prior = iv.Prior(
            mean=iv.Normal(0, 1),
            spread=iv.HalfNormal(1),
            effects=iv.Normal("mean", "spread", shape=2),
            share=iv.Uniform(0, 1),
            noise=iv.LogNormal(0, 1),
        )
        model = iv.with_jacobian(
            lambda t: t[:, :2] * t[:, 2:], lambda t: np.stack([t[:, [2, 2]] * e for e in np.eye(2)] + [t[:, :2]], 2)
        )
        model = iv.with_jacobian(model.function, model.jacobian_function, parameters=["effects", "share"])
        return iv.Posterior(prior, model, [0.5, -0.2], iv.GaussianNoise("noise"), domain="share < 0.9")

    def test_is_prior_times_likelihood(self) -> None:
        posterior = self.posterior()
        theta = posterior.sample_prior(np.random.default_rng(0), 5)
        value, gradient = posterior.log_density(theta)
        expected = posterior.log_prior(theta) + posterior.log_likelihood(theta).sum(axis=1)
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        h = 1e-6 * np.eye(theta.shape[1])
        differences = [(posterior.log_density(theta + s)[0] - posterior.log_density(theta - s)[0]) / 2e-6 for s in h]
        np.testing.assert_allclose(gradient, np.stack(differences, axis=1), rtol=1e-6, atol=1e-6)
        one = posterior.log_density(theta[0])
        assert one[0].shape == () and one[1].shape == theta[0].shape and one[0] == value[0]
        outside = dict(posterior.prior.unpack(theta[0])) | {"share": 0.95}
        value, gradient = posterior.log_density(outside)
        assert value == -np.inf and not gradient.any()

    def test_of_positions_is_that_of_a_sampler(self) -> None:
        posterior = self.posterior()
        position = posterior.sample_start(np.random.default_rng(1), 4)
        value, gradient = posterior.log_density_at(position)
        energy, slope = posterior.potential().energy_and_gradient(position)
        np.testing.assert_array_equal(value, -energy)
        np.testing.assert_array_equal(gradient, -slope)
        with pytest.raises(ValueError, match="position must have shape"):
            posterior.log_density_at(position[:, 1:])
