"""Invalid problems raise a named error before the first solve.

Files of SBML and PEtab that are not supported are in `tests/petab` and `tests/solvers/ode/sbml/test_sbml_model.py`.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import invsamp as iv
from invsamp.solvers.ode import Event, OdeModel, SteadyState


class Unsolved:
    """A forward model that must not be solved."""

    parameters = ("a",)

    def __call__(self, theta):
        pytest.fail("solved")

    linearize = __call__


def posed(noise, data=(1.0, 2.0), prior=None, **settings):
    return iv.Posterior(prior or iv.Prior(a=iv.LogNormal(0, 1)), Unsolved(), data, noise, **settings)


def decay(**settings):
    return OdeModel(lambda t, x, p: (-p[0] * x[0],), ("drug",), ("k",), **settings)


GAUSSIAN, NOT_DEFINITE = iv.GaussianNoise(1), [[1.0, 2.0], [2.0, 1.0]]
BAD = {
    "half a count": (
        lambda: posed(iv.PoissonNoise(), [1, 2.5]),
        "counts, .* under PoissonNoise, got 2.5 at index (1,)",
    ),
    "less than none": (lambda: posed(iv.NegativeBinomialNoise(1.0), [-1, 2]), "NegativeBinomialNoise, got -1 at"),
    "more than tried": (lambda: posed(iv.BinomialNoise(4), [1, 5]), "from 0 to trials, .*, got 5 at index (1,)"),
    "two categories": (
        lambda: posed(iv.noise.CategoricalNoise(), [[1, 1]]),
        "1 at one category .*, got 1 at index (0, 0)",
    ),
    "no logarithm": (lambda: posed(iv.LogNormalNoise(1), [1, 0.0]), "positive under LogNormalNoise, got 0 at"),
    "infinite": (lambda: posed(GAUSSIAN, [1, np.inf]), "data must be finite, got inf at index (1,)"),
    "covariance": (
        *(lambda: posed(iv.GaussianNoise(covariance=NOT_DEFINITE)),),
        "covariance must be positive definite, got smallest eigenvalue -1",
    ),
    "precision": (lambda: posed(iv.GaussianNoise(covariance=iv.noise.Precision(NOT_DEFINITE))), "positive definite"),
    "prior's covariance": (lambda: iv.MultivariateNormal([0, 0], NOT_DEFINITE), "covariance must be positive definite"),
    "name in a prior": (
        *(lambda: iv.Prior(x=iv.Normal("mu", "tau"), tau=iv.HalfNormal(1)),),
        "x must use names in the prior, ['x', 'tau'], got ['mu']",
    ),
    "circle": (
        *(lambda: iv.Prior(x=iv.Normal("y + 1", 1), y=iv.Normal("z", 1), z="2 * x"),),
        "must not depend on each other in a circle, got x -> y -> z -> x",
    ),
    "scale below 0": (
        lambda: iv.Prior(x=iv.Normal(0, "t"), t=iv.Normal(0, 1)),
        "sd of x must be positive: the prior of t",
    ),
    "name in noise": (
        lambda: posed(iv.GaussianNoise("sigma")),
        "scale must use the prior's parameters ['a'], got ['sigma']",
    ),
    "formula of noise": (lambda: posed(iv.GaussianNoise("s * y")), "prior's parameters ['a'], got ['s']"),
    "no formula": (lambda: posed(iv.GaussianNoise("a *")), "got 'a *': that is no formula"),
    "name of the model": (
        *(lambda: posed(GAUSSIAN, prior=iv.Prior(b=iv.Normal(0, 1))),),
        "must use the prior's parameters ['b'], got ['a']",
    ),
    "name of a transform": (lambda: posed(GAUSSIAN, transforms={"q": "log"}), "prior's parameters ['a'], got ['q']"),
    "name of an output": (
        *(lambda: iv.Outputs.labeled(["a", "b"], {"a": GAUSSIAN}),),
        "noises must be those of the labels ['a', 'b'], got ['a']",
    ),
    "state of a dose": (
        lambda: decay(doses=[(1.0, {"blood": 1.0})]),
        "doses must name states out of ('drug',), got ['blood']",
    ),
    "time of a dose": (lambda: decay(doses=[("lag", {"drug": 1.0})]), "one of the parameters ('k',).*, got 'lag'"),
    "event of nothing": (Event, "when or at must be given, and not both, got None and None"),
    "state seen": (
        lambda: decay().observe([1.0], initial=(1.0,), states=("blood",)),
        "names out of ('drug',), got ('blood',)",
    ),
    "given": (
        lambda: decay().observe([1.0], initial=(1.0,), given={"q": 1.0}),
        "of parameters out of ('k',), got ['q']",
    ),
    "rest": (lambda: decay().observe([1.0], initial=SteadyState((1.0,), {"q": 0.0})), "['q']"),
}


@pytest.mark.parametrize("name", BAD)
def test_by_name(name) -> None:
    make, message = BAD[name]
    parts = [re.escape(part) for part in message.split(".*")]
    with pytest.raises(ValueError, match=".*".join(parts)):
        make()
