"""Posteriors of modules: energies, gradients, priors, starts, and what is refused."""

from __future__ import annotations

import math
import pickle
from functools import cached_property

import numpy as np
import pytest
from arviz_versions import elpd

import invsamp as iv

torch = pytest.importorskip("torch", reason="torch is not installed")

from invsamp.torch import categorical, gaussian, module_posterior  # noqa: E402
from invsamp.torch import potential as potential_module  # noqa: E402

nn = torch.nn
RNG = np.random.default_rng(0)
X, LABELS = RNG.standard_normal((30, 3)), RNG.integers(4, size=30)
TARGETS = RNG.standard_normal((30, 2))


def network(outputs: int = 4, dtype: object = torch.float64) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, outputs)).to(dtype)


def by_hand(theta: np.ndarray, outputs: int = 4) -> np.ndarray:
    """What the network says of all inputs, at theta (d,)."""
    w0, b0 = theta[:15].reshape(5, 3), theta[15:20]
    w1, b1 = theta[20 : 20 + 5 * outputs].reshape(outputs, 5), theta[20 + 5 * outputs : 20 + 6 * outputs]
    return np.tanh(X @ w0.T + b0) @ w1.T + b1


class TestEnergies:
    def test_categorical(self):
        posterior = module_posterior(network(), (X, LABELS), categorical(), prior=2.0, block=7)
        theta = RNG.standard_normal((3, posterior.dimension))
        logits = np.stack([by_hand(row) for row in theta])
        log_likelihood = np.take_along_axis(
            logits - np.log(np.exp(logits).sum(axis=2, keepdims=True)), LABELS[None, :, None], axis=2
        )[:, :, 0]
        prior = 0.5 * (theta**2).sum(axis=1) / 4 + theta.shape[1] * (math.log(2.0) + 0.5 * math.log(2 * math.pi))
        parts = posterior.potential().parts(theta, "apart")
        np.testing.assert_allclose(parts.prior, prior)
        np.testing.assert_allclose(parts.energy, prior - log_likelihood.sum(axis=1))
        np.testing.assert_allclose(parts.prior_gradient, theta / 4)
        np.testing.assert_allclose(posterior.log_likelihood(theta), log_likelihood)
        assert posterior.shapes == {"0.weight": (5, 3), "0.bias": (5,), "2.weight": (4, 5), "2.bias": (4,)}

    def test_gaussian_of_an_unknown_scale(self):
        target = iv.HalfNormal(0.5)
        posterior = module_posterior(network(2), (X, TARGETS), gaussian("noise", target))
        theta = RNG.standard_normal((2, posterior.dimension))
        theta[:, -1] = [0.3, 1.7]
        misfit = np.array(
            [
                (0.5 * ((by_hand(row, 2) - TARGETS) / row[-1]) ** 2 + math.log(row[-1] * math.sqrt(2 * math.pi))).sum()
                for row in theta
            ]
        )
        weights = theta[:, :-1]
        prior = 0.5 * (weights**2).sum(axis=1) + 0.5 * weights.shape[1] * math.log(2 * math.pi)
        prior -= target.log_density(theta[:, -1]) + np.log(theta[:, -1])  # with the Jacobian
        position = posterior.to_position(theta)
        parts = posterior.potential().parts(position, True)
        np.testing.assert_allclose(parts.prior, prior)
        np.testing.assert_allclose(parts.energy - parts.prior, misfit)
        np.testing.assert_allclose(posterior.to_theta(position), theta)
        assert posterior.shapes["noise"] == ()
        assert posterior.check_gradient().passed

    @pytest.mark.parametrize("scale", [0.3, "noise"])
    def test_gradients(self, scale):
        posterior = module_posterior(network(2), (X, TARGETS), gaussian(scale), {"0": 0.5, "2.weight": 2, "2.bias": 1})
        assert posterior.check_gradient(seed=1).passed

    @pytest.mark.parametrize(("dtype", "error", "least"), [(torch.float64, 0.01, 18), (torch.float32, 0.5, 10)])
    def test_kinks_fail_no_check_and_hide_no_mistake(self, monkeypatch, dtype, error, least):
        """A start among a thousand kinks, 30 units of ReLU for each of 30 inputs in two layers."""
        torch.manual_seed(0)
        layers = nn.Linear(3, 30), nn.ReLU(), nn.Linear(30, 30), nn.ReLU(), nn.Linear(30, 4)
        posterior = module_posterior(nn.Sequential(*layers).to(dtype), (X, LABELS), categorical(), dtype=dtype)
        assert all(posterior.check_gradient(seed=seed).passed for seed in range(20))
        both = posterior.potential().energy_and_gradient
        wrong = lambda position: (both(position)[0], (1.0 + error) * both(position)[1])  # noqa: E731
        monkeypatch.setattr(posterior.potential(), "energy_and_gradient", wrong)
        assert sum(not posterior.check_gradient(seed=seed).passed for seed in range(20)) >= least

    def test_a_function_as_likelihood_and_as_prior(self):
        known = module_posterior(network(2), (X, TARGETS), gaussian(0.5), prior=2.0)
        same = module_posterior(
            network(2),
            (X, TARGETS),
            lambda output, target: -2.0 * ((output - target) ** 2).sum(dim=1),
            lambda blocks: -sum((part**2).sum() for part in blocks.values()) / 8,
        )
        theta = RNG.standard_normal((3, known.dimension))
        one, other = (posterior.potential().parts(theta, "apart") for posterior in (known, same))
        np.testing.assert_allclose(np.diff(one.energy), np.diff(other.energy))  # constants are of no meaning
        np.testing.assert_allclose(one.gradient, other.gradient)
        np.testing.assert_allclose(one.prior_gradient, other.prior_gradient)

    def test_single_precision(self):
        double, single = (
            module_posterior(network(dtype=dtype), (X, LABELS), categorical(), dtype=dtype)
            for dtype in (torch.float64, torch.float32)
        )
        theta = RNG.standard_normal((2, double.dimension))
        one, other = double.potential().parts(theta, True), single.potential().parts(theta, True)
        np.testing.assert_allclose(one.energy, other.energy, rtol=1e-5)
        np.testing.assert_allclose(one.gradient, other.gradient, rtol=1e-3, atol=1e-4)
        assert not np.array_equal(one.energy, other.energy)

    def test_several_inputs_and_parameters_that_stay(self):
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = nn.Linear(3, 2), nn.Linear(2, 2)
                self.second.requires_grad_(False)

            def forward(self, x, shift):
                return self.second(self.first(x)) + shift

        module = Two().double()
        shift = RNG.standard_normal((30, 2))
        posterior = module_posterior(module, ((X, shift), TARGETS), gaussian(1.0))
        assert list(posterior.shapes) == ["first.weight", "first.bias"]
        assert posterior.check_gradient().passed
        start = posterior.sample_start(np.random.default_rng(0), 2)
        assert posterior.outputs((X, shift))(start).shape == (2, 30, 2)

    def test_shared_parameters_are_one_block_and_reported(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.there = nn.Linear(3, 3)
                self.back = nn.Linear(3, 3)
                self.back.weight = self.there.weight

            def forward(self, x):
                return self.back(torch.tanh(self.there(x)))

        with pytest.warns(UserWarning, match=r"shares the parameter 'there.weight' with \['back.weight'\]"):
            posterior = module_posterior(Tied().double(), (X, X), gaussian(1.0))
        assert list(posterior.shapes) == ["there.weight", "there.bias", "back.bias"]
        assert posterior.check_gradient().passed
        theta = RNG.standard_normal(posterior.dimension)
        weight = theta[:9].reshape(3, 3)
        expected = np.tanh(X @ weight.T + theta[9:12]) @ weight.T + theta[12:]
        np.testing.assert_allclose(posterior.outputs(X)(theta[None])[0], expected)

    def test_pickled(self):
        posterior = module_posterior(network(), (X, LABELS), categorical())
        theta = RNG.standard_normal((2, posterior.dimension))
        again = pickle.loads(pickle.dumps(posterior))
        np.testing.assert_array_equal(again.potential().energy(theta), posterior.potential().energy(theta))
        assert repr(again) == repr(posterior)


class TestBatches:
    theta = RNG.standard_normal((3, 44))
    indices = RNG.integers(30, size=(3, 8))

    @cached_property
    def posterior(self):
        return module_posterior(network(), (X, LABELS), categorical())

    @pytest.mark.parametrize("scale", [1.0, 3.75])
    def test_sums_are_those_of_the_terms(self, scale):
        potential = self.posterior.potential()
        terms = potential.terms(self.theta, self.indices)
        sums = potential.batch_terms(self.theta, self.indices, "apart", scale)
        np.testing.assert_allclose(terms.energies, sums.energies)
        np.testing.assert_allclose(sums.gradient, terms.prior_gradient + scale * terms.gradients.sum(axis=1))
        np.testing.assert_allclose(sums.prior_gradient, terms.prior_gradient)
        again = potential.batch_terms(self.theta, self.indices, True, scale)
        np.testing.assert_allclose(again.gradient, sums.gradient)
        assert again.prior_gradient is None
        assert potential.batch_terms(self.theta, self.indices, False, scale).gradient is None

    def test_chains_of_a_large_module_are_differentiated_one_by_one(self, monkeypatch):
        def found(rows):
            potential = module_posterior(network(2), (X, TARGETS), gaussian("noise", iv.HalfNormal(0.5))).potential()
            position = np.random.default_rng(1).normal(size=(3, potential.dimension))[rows]
            members = np.array([[0, 3], [1, 4], [2, 5]])[rows]
            return *potential.parts(position, True)[:2], *potential.batch_terms(position, members, True, 4.0)[:3]

        together = found([0, 1, 2])
        monkeypatch.setattr(potential_module, "LARGE", 1)
        each = found([0, 1, 2])
        for one, other in zip(each, together, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
        for k in range(3):  # whatever the others are
            for one, other in zip(found([k]), each, strict=True):
                np.testing.assert_array_equal(one[0], other[k])

    def test_a_batch_of_all_data_is_the_whole(self):
        potential = self.posterior.potential()
        whole = potential.batch_terms(self.theta, np.tile(np.arange(30), (3, 1)), True, 1.0)
        energy, gradient = potential.energy_and_gradient(self.theta)
        np.testing.assert_allclose(whole.prior_energy + whole.energies.sum(axis=1), energy, rtol=1e-12)
        np.testing.assert_allclose(whole.gradient, gradient, atol=1e-10)

    @pytest.mark.parametrize("unknown", [False, True])
    def test_parameters_that_are_not_used_have_the_priors_gradient(self, unknown):
        class Lazy(nn.Module):
            def __init__(self):
                super().__init__()
                self.used, self.not_used = network(2), nn.Linear(2, 2)

            def forward(self, x):
                return self.used(x)

        target = gaussian("noise" if unknown else 0.5)
        posterior = module_posterior(Lazy().double(), (X, TARGETS), target, {"used": 2.0, "not_used": 0.5}, block=7)
        assert posterior.check_gradient().passed

    def test_positions_are_left_alone(self):
        theta = self.theta.copy()
        theta.flags.writeable = False  # as a run passes them
        for posterior in (self.posterior, module_posterior(network(), (X, LABELS), categorical(), dtype=torch.float32)):
            posterior.potential().batch_terms(theta, self.indices, True, 1.0)
        np.testing.assert_array_equal(theta, self.theta)

    @pytest.mark.parametrize(
        "sampler",
        [
            iv.samplers.sgld(1e-3, estimator=iv.estimators.minibatch(8)),
            iv.samplers.sghmc(1e-3, estimator=iv.estimators.minibatch(8)),
            iv.samplers.cyclic_sgld(1e-3, estimator=iv.estimators.minibatch(8), friction=0.1),
            iv.samplers.psgld(1e-3, estimator=iv.estimators.minibatch(8)),
            iv.resgld((1, 2), 1e-3, estimator=iv.estimators.minibatch(8), swap=iv.swaps.noise_penalty(1e4)),
            iv.samplers.vr_resgld((1, 2), 1e-3, size=8, refresh=5),
            iv.samplers.deo_sgd(1e-4, highest=1e-3, processes=3, estimator=iv.estimators.minibatch(8)),
        ],
        ids=lambda sampler: str(sampler)[:20],
    )
    def test_no_gradient_for_each_datum_unless_its_variance_is_wanted(self, sampler, monkeypatch, draw):
        def refuse(*_):
            raise AssertionError("a gradient for each datum")

        monkeypatch.setattr(type(self.posterior.potential()), "terms", refuse)
        run = draw(self.posterior, sampler, draws=10, warmup=100, chains=4)
        assert np.isfinite(run.theta).all()
        noisy = iv.samplers.sgld(1e-3, estimator=iv.estimators.minibatch(8), gradient_noise=iv.ladder.GradientNoise())
        with pytest.raises(AssertionError, match="a gradient for each datum"):
            draw(self.posterior, noisy, draws=20, warmup=20, chains=4)

    def test_the_draws_are_those_of_terms_summed(self, monkeypatch, draw):
        sampler = iv.samplers.vr_resgld((1, 2), 1e-3, size=8, refresh=5, adaptive=True)
        settings = {"draws": 20, "warmup": 100, "chains": 4}
        one = draw(self.posterior, sampler, **settings)
        monkeypatch.delattr(type(self.posterior.potential()), "batch_terms")
        other = draw(self.posterior, sampler, **settings)
        np.testing.assert_allclose(one.theta, other.theta, rtol=1e-6, atol=1e-8)


class TestStarts:
    def test_chains_begin_as_layers_initialize_themselves(self):
        torch.manual_seed(5)
        expected = torch.rand(1)
        torch.manual_seed(5)
        posterior = module_posterior(network(), (X, LABELS), categorical())
        torch.manual_seed(5)
        one, again = (posterior.sample_start(np.random.default_rng(1), 4) for _ in range(2))
        assert torch.rand(1) == expected  # torch's own stream is left alone
        np.testing.assert_array_equal(one, again)
        assert len(np.unique(one[:, 0])) == 4
        bound = 1 / math.sqrt(3)  # of torch's Linear with three inputs
        assert (np.abs(one[:, :20]) <= bound).all() and np.abs(one[:, :20]).max() > 0.8 * bound

    def test_or_at_draws_of_the_prior(self):
        prior = {"0": 3.0, "2": 0.1}
        posterior = module_posterior(network(2), (X, TARGETS), gaussian("noise"), prior, start="prior")
        found = posterior.sample_start(np.random.default_rng(1), 400)
        np.testing.assert_allclose(found[:, :20].std(), 3.0, rtol=0.1)
        np.testing.assert_allclose(found[:, 20:-1].std(), 0.1, rtol=0.1)
        theta = posterior.sample_prior(np.random.default_rng(1), 400)
        np.testing.assert_allclose(np.median(theta[:, -1]), 0.674, rtol=0.2)  # of a half-normal distribution

    def test_a_box_holds_weights_and_draws(self, draw):
        posterior = module_posterior(network(2), (X, TARGETS), gaussian("noise"), domain=iv.Box(-0.4, 0.4))
        start, prior = (draw(np.random.default_rng(0), 5) for draw in (posterior.sample_start, posterior.sample_prior))
        assert np.abs(start[:, :-1]).max() <= 0.4 and np.abs(prior[:, :-1]).max() <= 0.4
        settings = {"draws": 50, "warmup": 10, "chains": 4}
        run = draw(posterior, iv.samplers.r2sgld((1, 10), (4e-3, 6e-3)), **settings)
        assert np.abs(run.theta[:, :, :-1]).max() <= 0.4 and sum(run.report["reflections"]) > 0
        free = draw(posterior, iv.resgld((1, 10), (4e-3, 6e-3), boundary="ignore"), **settings)
        assert np.abs(free.theta[:, :, :-1]).max() > 0.4


class TestRuns:
    def test_conjugate_posterior(self, draw, agrees):
        x = np.random.default_rng(3).standard_normal((40, 2))
        y = x @ [[1.0], [-0.5]] + 0.5 * np.random.default_rng(4).standard_normal((40, 1))
        precision = x.T @ x / 0.25 + np.eye(2)
        mean, variance = np.linalg.solve(precision, x.T @ y / 0.25)[:, 0], np.diag(np.linalg.inv(precision))

        def moments(likelihood):
            posterior = module_posterior(nn.Linear(2, 1, bias=False).double(), (x, y), likelihood)
            theta = draw(posterior, iv.mala(), draws=100, warmup=200).theta
            return np.concatenate([theta.mean(axis=1), ((theta - mean) ** 2).mean(axis=1)], axis=1)

        truth = np.concatenate([mean, variance])
        assert agrees(moments(gaussian(0.5)), truth)
        # control: the mean of the losses in place of their sum
        assert not agrees(moments(lambda output, target: -2.0 / 40 * ((output - target) ** 2)[:, 0]), truth)

    def test_stored_and_resumed(self, tmp_path, draw):
        posterior = module_posterior(network(), (X, LABELS), categorical())
        settings = {"warmup": 10, "chains": 4}
        sampler = iv.samplers.sghmc(1e-3, estimator=iv.estimators.minibatch(8))
        whole = draw(posterior, sampler, draws=20, **settings)
        draw(posterior, sampler, draws=8, directory=tmp_path / "run", **settings)
        again = iv.resume(tmp_path / "run", draws=20, progress=False)
        np.testing.assert_array_equal(whole.theta, again.theta)
        with pytest.raises(ValueError, match="prior"):
            other = module_posterior(network(), (X, LABELS), categorical(), prior=2.0)
            iv.resume(tmp_path / "run", other, draws=30, progress=False)

    def test_chains_that_run_away_are_reported(self, draw):
        posterior = module_posterior(network(), (X, LABELS), categorical())
        with pytest.raises(RuntimeError, match="The chains diverged: the step size 100 is too long"):
            draw(
                posterior, iv.samplers.sgld(100.0, estimator=iv.estimators.minibatch(8)), draws=10, warmup=500, chains=2
            )

    def test_cross_validation(self, draw):
        posterior = module_posterior(nn.Linear(3, 4).double(), (X, LABELS), categorical())
        run = draw(posterior, iv.mala(), draws=100, warmup=100, chains=4)
        assert elpd(run.loo(posterior)) < 0.0


class TestPredictions:
    def test_outputs(self):
        posterior = module_posterior(network(2), (X, TARGETS), gaussian("noise"))
        theta = RNG.standard_normal((3, posterior.dimension))
        np.testing.assert_allclose(posterior.outputs(X, block=7)(theta), [by_hand(row, 2) for row in theta])
        single = module_posterior(network(2, torch.float32), (X, TARGETS), gaussian(1.0)).outputs(X)
        assert single(theta[:, :-1]).dtype == np.float32
        with pytest.raises(ValueError, match=r"theta must have shape \(batch, 32\), got \(3, 5\)"):
            single(theta[:, :5])
        with pytest.raises(ValueError, match="x must be"):
            posterior.outputs("x")
        with pytest.raises(ValueError, match=r"x must be such as the module takes, got \[\(30, 2\)\]"):
            posterior.outputs(X[:, :2])
        with pytest.raises(ValueError, match=r"x must have rows, .* at least one, got \[0\]"):
            posterior.outputs(X[:0])
        with pytest.raises(ValueError, match="block must be"):
            posterior.outputs(X, block=0)

    def test_recorded_in_place_of_weights(self, draw):
        posterior = module_posterior(network(), (X, LABELS), categorical())
        settings = {"draws": 10, "warmup": 10, "chains": 4}
        sampler = iv.samplers.sgld(1e-3, estimator=iv.estimators.minibatch(8))
        weights = draw(posterior, sampler, **settings).theta
        run = draw(posterior, sampler, record={"logits": posterior.outputs(X)}, keep=False, **settings)
        expected = [by_hand(row) for row in weights.reshape(-1, posterior.dimension)]
        np.testing.assert_allclose(run.draws("logits").reshape(40, 30, 4), expected)
        assert iv.results.predicted_classes(run, "logits").scores(LABELS).nll < 2 * np.log(4)

    def test_a_module_is_no_function_of_theta(self, draw):
        posterior = module_posterior(network(), (X, LABELS), categorical())
        with pytest.raises(TypeError, match="must be Tensor") as raised:
            draw(posterior, iv.samplers.sgld(1e-3), draws=2, warmup=2, chains=2, record={"logits": network()})
        assert raised.value.__notes__ == ["in record['logits'], of theta as an array (2, 44)"]


class TestRefused:
    @pytest.mark.parametrize(
        ("module", "message"),
        [
            (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), r"buffers \[.*running_mean.*eval\(\)"),
            (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, track_running_stats=False)), r"depend on the other rows"),
            (nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5)), r"same inputs, got others \(dropout"),
            (nn.Tanh(), "module must have parameters that are trainable"),
            (nn.Linear(3, 4).requires_grad_(False), "module must have parameters that are trainable"),
            (nn.LSTM(3, 4), "module must return one tensor, got tuple"),
            (lambda x: x, "module must be a torch.nn.Module"),
        ],
    )
    def test_modules(self, module, message):
        x, y = X.astype(np.float32), LABELS
        with pytest.raises(ValueError, match=message):
            module_posterior(module, (x, y), categorical())

    def test_what_torch_cannot_transform(self):
        class Odd(nn.Linear):
            def forward(self, x):
                return super().forward(x) * (1.0 if float(self.weight.sum()) > 0 else 2.0)

        with pytest.raises(ValueError, match=r"such as torch.func can transform.*item\(\)"):
            module_posterior(Odd(3, 4).double(), (X, LABELS), categorical())
        with pytest.raises(ValueError, match=r"such as the module takes, got \[\(30, 3\)\] and RuntimeError"):
            module_posterior(nn.Linear(2, 4).double(), (X, LABELS), categorical())

    @pytest.mark.parametrize(
        ("outputs", "targets", "loss"),
        [
            (4, LABELS, lambda o, t: nn.functional.cross_entropy(o, t, reduction="none")),
            (2, TARGETS, lambda o, t: ((o - t) ** 2).sum(dim=1)),
        ],
    )
    def test_a_loss_that_was_not_turned_over_is_reported(self, outputs, targets, loss, recwarn):
        with pytest.warns(UserWarning, match="log likelihood falls from .* is it a loss"):
            module_posterior(network(outputs), (X, targets), loss)
        recwarn.clear()
        module_posterior(network(outputs), (X, targets), lambda o, t: -loss(o, t))
        assert not recwarn.list

    def test_precisions_are_those_of_the_module(self):
        single, double = (torch.tensor(X, dtype=dtype) for dtype in (torch.float32, torch.float64))
        posterior = module_posterior(network(), (single, LABELS), categorical())
        assert posterior.outputs(double)(np.zeros((1, posterior.dimension))).dtype == np.float64
        halves = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 4).double())
        assert module_posterior(halves, (double, LABELS), categorical()).check_gradient().passed

        named = module_posterior(network(), (single, LABELS), categorical(), dtype="float32")
        assert "float32 on cpu" in str(named) and named.outputs(double)(np.zeros((1, 44))).dtype == np.float32

    @pytest.mark.parametrize("kind", [np.array, np.float32, torch.tensor, torch.FloatTensor])
    def test_data_are_copied(self, kind, recwarn):
        x = kind(X)
        posterior = module_posterior(network(), (x, LABELS), categorical(), dtype=torch.float32)
        theta = posterior.sample_start(np.random.default_rng(0), 2)
        before = posterior.potential().energy(theta)
        x *= 2.0
        np.testing.assert_array_equal(posterior.potential().energy(theta), before)
        frozen = np.asarray(X.copy())
        frozen.flags.writeable = False  # as a table's columns are
        module_posterior(network(), (frozen, LABELS), categorical())
        assert not recwarn.list

    def test_normalization_at_rest_is_fine(self):
        module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).double().eval()
        assert module_posterior(module, (X, LABELS), categorical()).check_gradient().passed

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"data": X}, "data must be a pair .* got ndarray"),
            ({"data": (X, X, LABELS)}, "data must be a pair .* got 3 parts"),
            ({"data": (X, LABELS[:-1])}, r"as many inputs as targets.*\[30, 29\]"),
            ({"data": (X, LABELS + 1)}, "targets must be classes from 0 to 3, got 4"),
            ({"data": (X, LABELS.astype(float))}, "targets must be whole numbers"),
            ({"data": (X, LABELS[:, None])}, r"targets must be whole numbers \(n,\) for categorical\(\), got"),
            ({"data": (X, np.eye(4)[LABELS])}, r"targets must be whole numbers .*targets.argmax\(1\)"),
            ({"data": (X, np.append(LABELS[:-1], 9))}, "targets must be classes from 0 to 3, got 9"),
            ({"data": (X, LABELS.astype(str))}, "targets must be a tensor or an array of numbers, got an array of <U"),
            ({"data": (X.astype(complex), LABELS)}, "inputs must be real numbers, got torch.complex128"),
            ({"data": (X[:0], LABELS[:0])}, r"as many inputs as targets, at least one, got \[0, 0\]"),
            ({"data": (X.astype(int), LABELS)}, "inputs must be such as the module takes .integers stay integers"),
            ({"module": network(1)}, "a logit for each class for categorical.*, got 1: two for two classes"),
            ({"module": nn.Sequential(network(), nn.Softmax(dim=1))}, "got probabilities: leave its softmax out"),
            ({"module": network().to("meta")}, "device must be one that holds numbers, got 'meta'"),
            (
                {"module": nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 4, device="meta"))},
                r"parameters on the meta device: \['1.weight', '1.bias'\]",
            ),
            ({"module": nn.LazyLinear(4)}, r"got \['weight', 'bias'\] without values: call module"),
            ({"device": "cuda:99"}, "device must be one that this machine has, got 'cuda:99': "),
            ({"data": (X, TARGETS), "likelihood": gaussian(1.0)}, r"targets must have the shape .* \(n, 4\), got"),
            (
                {"module": network(1), "data": (X, TARGETS[:, 0]), "likelihood": gaussian(1.0)},
                r"shape .* \(n, 1\) \(targets\[:, None\]\), got \(30,\)",
            ),
            ({"likelihood": categorical}, r"likelihood must be called: categorical\(\), got categorical"),
            ({"likelihood": gaussian}, r"likelihood must be called: gaussian\(0.1\), got gaussian"),
            ({"likelihood": lambda o, t: np.zeros(len(o))}, "likelihood must return a tensor, .* got ndarray"),
            ({"likelihood": lambda o, t: 0.0}, "likelihood must return a tensor, .* got float"),
            ({"likelihood": lambda o, t: o.logits}, "likelihood must take outputs and targets, got AttributeError"),
            ({"data": (np.where(np.arange(30) == 7, np.nan, X.T).T, LABELS)}, "log likelihood of nan for datum 7"),
            ({"data": (torch.empty(30, 3, device="meta"), LABELS)}, "inputs must be on the device cpu .* got .* meta"),
            ({"data": ("inputs", LABELS)}, "inputs must be a tensor or an array of numbers|row for each datum"),
            ({"likelihood": nn.CrossEntropyLoss()}, "a loss is minus a log likelihood, and mostly a mean"),
            (
                {"likelihood": lambda o, t: -nn.functional.cross_entropy(o, t)},
                "log likelihood of each datum, shape .*neither their sum nor their mean",
            ),
            ({"likelihood": lambda o, t: o}, "log likelihood of each datum"),
            (
                {"likelihood": lambda o, t: -nn.functional.cross_entropy(o, t, reduction="none") / len(o)},
                "each datum by itself, got one that depends on the other data .their mean",
            ),
            (
                {"likelihood": lambda o, t: -nn.functional.cross_entropy(o, t).expand(len(o))},
                "each datum by itself, got one that depends on the other data .their mean",
            ),
            (
                {
                    "module": network(2),
                    "data": (X, np.where(np.arange(30) == 4, np.inf, TARGETS.T).T),
                    "likelihood": gaussian(1.0),
                },
                "log likelihood of -inf for datum 4",
            ),
            ({"data": (X, torch.empty(30, dtype=torch.int64, device="meta"))}, "targets must be on the device cpu"),
            ({"likelihood": "categorical"}, "likelihood must be a function"),
            ({"prior": -1.0}, "prior must be a positive"),
            ({"prior": {"0": 1.0}}, "prior must have a standard deviation for each of"),
            ({"prior": {"0": 1.0, "2": 1.0, "3": 1.0}}, "prior must hold names of .*, got '3'"),
            ({"prior": lambda blocks: blocks["0.bias"]}, r"prior must return a finite log density.*\(5,\)"),
            ({"dtype": torch.float16}, "dtype must be torch.float32 or torch.float64, .* got torch.float16"),
            ({"dtype": "half"}, "dtype must be torch.float32 or torch.float64, or a name of these, got 'half'"),
            ({"device": "abacus"}, "device must be one of torch's, got 'abacus'"),
            ({"start": "zero"}, "start must be one of"),
            ({"block": 0}, "block must be"),
            ({"domain": iv.Box(np.zeros(2), np.ones(2))}, "Box has 2 coordinates"),
        ],
    )
    def test_arguments(self, changed, message):
        arguments = {"module": network(), "data": (X, LABELS), "likelihood": categorical()} | changed
        with pytest.raises(ValueError, match=message):
            module_posterior(**arguments)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((0.0,), "scale must be a positive"),
            (("",), "scale must be a string"),
            ((1.0, iv.HalfNormal(1.0)), "prior must be None where the scale is a number"),
            (("s", iv.Normal(0, 1)), "prior must be of a number on the whole positive axis"),
            (("s", iv.Uniform(0, 1)), "prior must be of a number on the whole positive axis"),
            (("s", iv.HalfNormal(1.0, shape=2)), "prior must be of a number on the whole positive axis"),
        ],
    )
    def test_scales(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            gaussian(*arguments)
