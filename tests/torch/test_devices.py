"""Networks and models on every device that is there; without a GPU, on the one that is named by hand."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv

torch = pytest.importorskip("torch", reason="torch is not installed")

from invsamp.torch import categorical, gaussian, module_posterior  # noqa: E402

nn = torch.nn
RNG = np.random.default_rng(0)
X, LABELS, TARGETS = RNG.random((40, 1, 8, 8)), RNG.integers(3, size=40), RNG.standard_normal((40, 2))
INDICES = RNG.integers(40, size=(3, 10))
GPU = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))
#: How near energies and gradients come to those in double precision, relative to the largest. On a GPU convolutions in
#: single precision are rounded to ten bits by default.
NEAR = {torch.float64: 1e-11, torch.float32: 5e-3}


def flat(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.Tanh(), nn.Linear(20, outputs))


def convolutional(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(36, outputs))


def log_prior(blocks):
    return -sum((part**2).sum() for part in blocks.values()) / 8


POSED = {
    "perceptron": (flat, 3, LABELS, categorical(), {"1": 1.0, "3": 0.5}),
    "convolutions": (convolutional, 3, LABELS, categorical(), 0.3),
    "unknown scale": (flat, 2, TARGETS, gaussian("noise"), log_prior),
    "a function": (flat, 2, TARGETS, lambda output, target: -((output - target) ** 2).sum(dim=1), 1.0),
}


def posed(name: str, dtype: object, device: str | None) -> object:
    network, outputs, targets, likelihood, prior = POSED[name]
    torch.manual_seed(0)
    return module_posterior(network(outputs), (X, targets), likelihood, prior, dtype=dtype, device=device, block=17)


def near(one: object, other: object, dtype: object) -> None:
    np.testing.assert_allclose(one, other, rtol=0, atol=NEAR[dtype] * np.abs(other).max())


@pytest.mark.parametrize("dtype", NEAR, ids=str)
@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("name", POSED)
def test_energies_and_gradients(name, device, dtype):
    posterior, truth = posed(name, dtype, device), posed(name, torch.float64, None)
    position = truth.sample_start(np.random.default_rng(1), 3)
    theta = truth.to_theta(position)
    here, there = posterior.potential(), truth.potential()
    for one, other in zip(here.parts(position, "apart"), there.parts(position, "apart"), strict=True):
        near(one, other, dtype)
    batches = (part.batch_terms(position, INDICES, True, 4.0) for part in (here, there))
    for one, other in zip(*batches, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            near(one, other, dtype)
    for one, other in zip(here.terms(position, INDICES), there.terms(position, INDICES), strict=True):
        near(one, other, dtype)
    near(posterior.log_likelihood(theta), truth.log_likelihood(theta), dtype)
    near(posterior.outputs(X)(theta), truth.outputs(X)(theta), dtype)
    assert posterior.check_gradient().passed


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_chains_begin_at_the_same_places_and_torch_is_left_alone(device):
    module = flat(3)
    torch.manual_seed(5)
    expected = torch.rand(1), torch.rand(1, device=device)
    torch.manual_seed(5)
    posterior = module_posterior(module, (X, LABELS), categorical(), dtype=torch.float64, device=device)
    start = posterior.sample_start(np.random.default_rng(1), 4)
    assert (torch.rand(1), torch.rand(1, device=device)) == expected
    np.testing.assert_array_equal(
        start, posed("perceptron", torch.float64, None).sample_start(np.random.default_rng(1), 4)
    )
    assert {(part.device.type, part.dtype) for part in module.parameters()} == {("cpu", torch.float32)}


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_runs_are_those_of_the_processor(device, draw, tmp_path):
    sampler = iv.samplers.sghmc(1e-3, estimator=iv.estimators.minibatch(10))
    settings = {"warmup": 10, "chains": 4}

    def logits(where, draws=10, **more):
        posterior = posed("perceptron", torch.float64, where)
        run = draw(posterior, sampler, draws=draws, record={"logits": posterior.outputs(X)}, **settings, **more)
        return run.draws("logits")

    expected = logits(None)
    np.testing.assert_allclose(logits(device), expected, rtol=1e-6, atol=1e-8)
    logits(device, 4, directory=tmp_path / "run")
    again = iv.resume(tmp_path / "run", draws=10, progress=False)
    np.testing.assert_allclose(again.draws("logits"), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_data_elsewhere_are_refused(device):
    elsewhere = "meta" if device == "cpu" else "cpu"
    for data in (
        (torch.empty(X.shape, device=elsewhere), LABELS),
        (X, torch.empty(40, dtype=torch.int64, device=elsewhere)),
    ):
        with pytest.raises(ValueError, match=rf"must be on the device {device} of the module, got .* {elsewhere}"):
            module_posterior(flat(3), data, categorical(), device=device)
    posterior = module_posterior(flat(3), (X, LABELS), categorical(), device=device)
    with pytest.raises(ValueError, match=f"x must be on the device {device}"):
        posterior.outputs(torch.empty(X.shape, device=elsewhere))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("device", ["cpu", GPU])
def test_a_forward_model(device, dtype, draw):
    grid = torch.linspace(0, 1, 5, dtype=getattr(torch, dtype), device=device)
    model = iv.from_torch(lambda t: torch.sin(t[:, :1] + grid) * t[:, 1:], dtype=dtype, device=device)
    theta, x = RNG.standard_normal((3, 2)), np.linspace(0, 1, 5)
    y, product = model.linearize(theta)
    expected = np.sin(theta[:, :1] + x) * theta[:, 1:]
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-14 if dtype == "float64" else 1e-6)
    weights = RNG.standard_normal((3, 5))
    slope = np.stack(
        [(weights * np.cos(theta[:, :1] + x) * theta[:, 1:]).sum(1), (weights * np.sin(theta[:, :1] + x)).sum(1)], 1
    )
    np.testing.assert_allclose(product(weights), slope, rtol=0, atol=1e-13 if dtype == "float64" else 1e-5)
    prior = iv.Prior(shift=iv.Normal(0, 1), scale=iv.Normal(0, 1))
    posterior = iv.Posterior(prior, forward=model, data=expected[0], noise=iv.GaussianNoise(0.1))
    run = draw(posterior, iv.mala(), draws=20, warmup=100, chains=4)
    assert np.isfinite(run.theta).all()
