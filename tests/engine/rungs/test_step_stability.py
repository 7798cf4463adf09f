"""Steps of unadjusted rungs: unstable ones are refused or reported, right ones pass."""

import warnings

import numpy as np
import pytest

import invsamp as iv

S = iv.samplers
BOX = iv.Box([-10.0] * 2, [10.0] * 2)
WORDS = ("longest stable", "the drift of a step")


def line():
    """Twelve data on a line: steps up to 3.3e-4 are stable."""
    x = np.linspace(0.0, 1.0, 12)
    design = np.stack([np.ones(12), x], axis=1)
    data = design @ [1.0, 2.0] + 0.05 * np.cos(np.arange(12.0))
    model = iv.with_jacobian(lambda theta: theta @ design.T, lambda theta: np.tile(design, (len(theta), 1, 1)))
    return iv.Posterior(iv.Prior(a=iv.Uniform(-10, 10), b=iv.Uniform(-10, 10)), model, data, iv.GaussianNoise(0.05))


def scales():
    """Ten independent Gaussians of sds from .01 to 1: steps up to 2e-4 are stable."""
    precision = np.geomspace(1e4, 1.0, 10)
    density = iv.LogDensity(lambda x: -0.5 * (x**2 @ precision), lambda x: -x * precision, dimension=10)
    return iv.Target(density, domain=iv.Box([-3.0] * 10, [3.0] * 10))


def corner():
    """The tail of a Gaussian of sd .1 beyond five sds: the density falls as exp(-50 x) from the boundary."""
    density = iv.LogDensity(lambda x: -50.0 * (x[:, 0] + 0.5) ** 2, lambda x: -100.0 * (x + 0.5), dimension=1)
    return iv.Target(density, domain=iv.Box([0.0], [5.0]))


def modes():
    """Two Gaussians of sd .05: steps up to 5e-3 are stable."""

    def shares(x):
        apart = np.clip(-800.0 * x[:, :1], -500.0, 500.0)
        return 1.0 / (1.0 + np.exp(apart))

    def log_density(x):
        squares = [200.0 * ((x[:, 0] - at) ** 2 + x[:, 1] ** 2) for at in (-1.0, 1.0)]
        return np.logaddexp(-squares[0], -squares[1])

    def gradient(x):
        right = shares(x)
        return -400.0 * (x - (2.0 * right - 1.0) * np.array([1.0, 0.0]))

    return iv.Target(iv.LogDensity(log_density, gradient, dimension=2), domain=BOX)


def heavy():
    """Student's t with three degrees of freedom: steps up to 1.5 are stable."""
    density = iv.LogDensity(
        lambda x: -2.0 * np.log1p(x**2 / 3.0).sum(axis=1), lambda x: -4.0 * x / (3.0 + x**2), dimension=2
    )
    return iv.Target(density, domain=iv.Box([-50.0] * 2, [50.0] * 2))


def noisy():
    return {"estimator": iv.estimators.noisy(1.0, 1.0)}


#: Problem, sampler; steps are less than .15 of the longest stable one in all rungs.
RIGHT = {
    "line, sgld": (line, S.sgld(1e-5)),
    "line, r2sgld": (line, S.r2sgld((1, 10), (1e-5, 3e-5))),
    "line, fast": (line, S.fast_resgld((1, 10), 2e-5, **noisy())),
    "line, multi-variance": (line, S.multi_variance_resgld((1, 10), 2e-5, **noisy())),
    "line, tempering": (line, S.parallel_tempering((1, 4), 2e-5, adjusted=False)),
    "line, momentum": (line, S.sghmc(2e-5)),
    "line, minibatch": (line, S.sgld(2e-6, estimator=iv.estimators.minibatch(6))),
    "line, found": (line, S.sgld()),
    "line, found pair": (line, S.r2sgld((1, 10))),
    "scales, sgld": (scales, S.sgld(1e-5)),
    "scales, found": (scales, S.sgld()),
    "corner, sgld": (corner, S.sgld(2e-5)),
    "modes, r2sgld": (modes, S.r2sgld((1, 10), 3e-4)),
    "modes, cyclic": (modes, S.cyclic_sgld(4e-4)),
    "heavy, sgld": (heavy, S.sgld(0.1)),
}
#: Problem, sampler, whether the step is refused.
WRONG = {
    "line, sgld": (line, S.sgld(5e-4), True),
    "line, half of the limit": (line, S.sgld(2e-4), False),
    "line, r2sgld": (line, S.r2sgld((1, 10), (5e-4, 1.5e-3)), True),
    "line, hot rung": (line, S.r2sgld((1, 10), (1e-5, 1.5e-3)), True),
    "line, fast": (line, S.fast_resgld((1, 10), 5e-4, **noisy()), True),
    "line, multi-variance": (line, S.multi_variance_resgld((1, 10), 1e-3, **noisy()), True),
    "line, tempering": (line, S.parallel_tempering((1, 4), 1e-2, adjusted=False), True),
    "line, momentum": (line, S.sghmc(2e-3), True),
    "line, minibatch": (line, S.sgld(1e-3, estimator=iv.estimators.minibatch(6)), True),
    "line, cyclic": (line, S.cyclic_sgld(2e-3), False),
    "scales, sgld": (scales, S.sgld(1e-3), True),
    "scales, half of the limit": (scales, S.sgld(1e-4), False),
    "corner, sgld": (corner, S.sgld(0.008), False),
    "modes, r2sgld": (modes, S.r2sgld((1, 10), 0.02), True),
    "heavy, sgld": (heavy, S.sgld(2.5), False),
}


def found(problem, sampler, seed):
    """Warnings of steps, or the refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run = iv.sample(problem(), sampler, draws=400, warmup=400, seed=seed, progress=False)
        except ValueError as error:
            return str(error)
    return [message for message in run.warnings() if any(words in message for words in WORDS)]


@pytest.mark.parametrize("name", RIGHT)
def test_right_steps_pass(name):
    assert found(*RIGHT[name], seed=1) == []


@pytest.mark.parametrize("name", WRONG)
def test_wrong_steps_are_refused_or_reported(name):
    problem, sampler, refused = WRONG[name]
    words = found(problem, sampler, seed=1)
    assert words
    assert isinstance(words, str) == refused, words
    assert any(each in str(words) for each in WORDS)
