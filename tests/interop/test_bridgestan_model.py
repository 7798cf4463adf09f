"""A model with BridgeStan's methods: names, shapes, transforms, and draws of a density that is known."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats
from targets import kolmogorov

import invsamp as iv


class Model:
    """What BridgeStan makes of: ``real mu; real<lower=0> sd; matrix[2, 2] z; simplex[3] w;``, Gaussian and gamma."""

    unconstrained = ("mu", "sd", "z.1.1", "z.2.1", "z.1.2", "z.2.2", "w.1", "w.2")

    def param_names(self) -> list[str]:
        return [*self.unconstrained, "w.3"]  # matrices by columns, as in Stan

    def param_unc_names(self) -> list[str]:
        return list(self.unconstrained)

    def param_unc_num(self) -> int:
        return 8

    def param_constrain(self, x: np.ndarray) -> np.ndarray:
        return np.concatenate([x[:1], np.exp(x[1:2]), x[2:6], special.softmax([*x[6:], 0.0])])

    def param_unconstrain(self, theta: np.ndarray) -> np.ndarray:
        logs = np.log(theta[6:])
        return np.concatenate([theta[:1], np.log(theta[1:2]), theta[2:6], logs[:2] - logs[2]])

    def log_density(self, x: np.ndarray, propto: bool = True, jacobian: bool = True) -> float:
        return self.log_density_gradient(x, propto, jacobian)[0]

    def log_density_gradient(self, x: np.ndarray, propto: bool = True, jacobian: bool = True) -> tuple:
        assert jacobian
        if x[0] > 4.0:
            raise RuntimeError("Stan says no")
        square = np.delete(x, 1)
        slope = -x.copy()
        slope[1] = 2.0 - np.exp(x[1])  # gamma of shape 2, as of its logarithm
        return -0.5 * (square**2).sum() + 2 * x[1] - np.exp(x[1]), slope


def test_names_shapes_and_transforms() -> None:
    problem = iv.from_bridgestan(Model())
    assert problem.shapes == {"mu": (), "sd": (), "z": (2, 2), "w_unconstrained": (2,)}
    position = np.random.default_rng(0).normal(size=(4, 8))
    theta = problem.to_theta(position)
    np.testing.assert_allclose(theta[:, 1], np.exp(position[:, 1]))
    np.testing.assert_allclose(theta[:, 2:6], position[:, [2, 4, 3, 5]])  # rows first, as NumPy has them
    np.testing.assert_allclose(problem.to_position(theta), position, rtol=1e-12)
    np.testing.assert_allclose(problem.deterministics["w"](theta).sum(axis=1), 1.0)
    assert problem.check_gradient().passed
    energy, slope = problem.potential().energy_and_gradient(np.full((1, 8), 5.0))
    assert energy[0] == np.inf and not slope.any()


def test_draws(within) -> None:
    run = iv.sample(iv.from_bridgestan(Model()), iv.hmc(), draws=1500, seed=1, progress=False)
    every = max(1, int(np.ceil(6000 / run.summary()["ess_bulk"]["sd"])))
    assert within(*kolmogorov(run.draws("sd").ravel()[::every], stats.gamma(2).cdf))
    assert not within(*kolmogorov(run.draws("sd").ravel()[::every], stats.gamma(2.5).cdf))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model compiled by hand with BridgeStan's C interface, as no Stan compiler is needed to load one."""
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("needs a C compiler")
    source = Path(__file__).parents[1] / "data" / "stan_interface.c"
    built = tmp_path_factory.mktemp("stan") / "model.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(built), str(source), "-lm"], check=True)
    return built


@pytest.mark.filterwarnings("ignore:The version of the compiled model:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:Loading a shared object:UserWarning")
def test_through_the_package_itself(library: Path, within) -> None:
    """`bridgestan.StanModel`, which checks types and shapes of arrays, and raises."""
    bridgestan = pytest.importorskip("bridgestan")
    problem = iv.from_bridgestan(bridgestan.StanModel(str(library)))
    assert problem.shapes == {"mu": (), "sd": ()}
    assert problem.described() == {"model": "stan_interface"}
    assert problem.check_gradient().passed
    energy, slope = problem.potential().energy_and_gradient(np.array([[7.0, 0.0], [1.0, 0.0]]))
    assert energy[0] == np.inf and not slope[0].any()
    np.testing.assert_allclose([energy[1], *slope[1]], [1.5, 1.0, -1.0])
    run = iv.sample(problem, draws=1500, seed=1, progress=False)
    every = max(1, int(np.ceil(6000 / run.summary()["ess_bulk"]["sd"])))
    assert within(*kolmogorov(run.draws("sd").ravel()[::every], stats.gamma(2).cdf))
    assert not within(*kolmogorov(run.draws("sd").ravel()[::every], stats.gamma(2.5).cdf))


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model must be a bridgestan\.StanModel, which has param_names\(\)"):
        iv.from_bridgestan(3)
