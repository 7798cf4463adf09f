"""What the calls of `core_calls` and `solver_calls` are about: a small posterior, its run, an ODE."""

from __future__ import annotations

import functools
import warnings
from functools import cache
from typing import Any

import numpy as np

import invsamp as iv
from invsamp.problems import lotka_volterra
from invsamp.solvers import ode

#: Kinds of arguments that are arrays, of a given shape or of any.
ARRAY = {"real", "integer", "numbers", "signed"}
SHAPELESS = {*ARRAY, "any shape"}


@cache
def a_prior() -> Any:
    return iv.Prior(a=iv.Normal(0.0, 1.0), b=iv.Normal(0.0, 1.0))


@cache
def a_posterior() -> Any:
    coarse, fine = iv.with_jacobian(line, slopes), iv.with_jacobian(line, slopes)
    return iv.Posterior(a_prior(), {"coarse": coarse, "fine": fine}, np.zeros(3), iv.GaussianNoise(0.5))


@cache
def an_ode() -> ode.OdeModel:
    return ode.OdeModel(lotka_volterra.rhs, ("x", "y"), ("a", "b", "c", "d"))


@cache
def a_run(draws: int = 20) -> Any:
    sampler = iv.samplers.parallel_tempering((1.0, 2.0), (0.1, 0.1))
    return quiet(iv.sample, a_posterior(), sampler, draws=draws, warmup=5, chains=2, seed=1, progress=False)


def line(theta: np.ndarray) -> np.ndarray:
    return theta[:, :1] + theta[:, 1:] * np.arange(3.0)


def slopes(theta: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.stack([np.ones(3), np.arange(3.0)], axis=1), (len(theta), 3, 2))


def bowl(position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return 0.5 * (position**2).sum(axis=1), position


def quiet(function: Any, *arguments: Any, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **settings)


def without(function: Any) -> Any:
    """The function where what it needs (a package, a server, a file) is missing, which is no argument's fault."""

    @functools.wraps(function)
    def called(**arguments: Any) -> Any:
        try:
            return function(**arguments)
        except (ImportError, OSError, iv.ModelError):
            return None

    return called
