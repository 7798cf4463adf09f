"""Densities by themselves: `Target`."""

from __future__ import annotations

import numpy as np
import pytest
from functions import square
from scipy import integrate, stats

import invsamp as iv
from invsamp.domains import Ball, Box, HalfSpaces, Polygon, Unbounded, constraint
from invsamp.posing.posterior.function_potential import FunctionPotential
from invsamp.posing.posterior.target import Target


class TestTarget:
    potential = FunctionPotential(square, 2)

    def test_fidelities_go_from_coarse_to_fine(self):
        coarse = FunctionPotential(square, 2)
        target = Target({"coarse": coarse, "fine": self.potential})
        assert target.fidelities == ("coarse", "fine")
        assert target.potential() is self.potential
        assert target.potential("coarse") is coarse
        with pytest.raises(ValueError, match=r"fidelity must be one of 'coarse', 'fine', got 'medium'"):
            target.potential("medium")

    def test_names(self):
        assert Target(self.potential).shapes == {"theta": (2,)}
        assert Target(self.potential, names=("a", "b")).shapes == {"a": (), "b": ()}
        with pytest.raises(ValueError, match=r"names must have 2 entries, got \['a'\]"):
            Target(self.potential, names=("a",))

    def test_bad_potentials(self):
        with pytest.raises(ValueError, match="at least one potential"):
            Target({})
        with pytest.raises(ValueError, match=r"share one dimension, got \{'a': 2, 'b': 3\}"):
            Target({"a": self.potential, "b": FunctionPotential(square, 3)})
        with pytest.raises(ValueError, match="3 coordinates"):
            Target(self.potential, Box(np.zeros(3), np.ones(3)))

    def test_positions_are_parameters(self):
        theta, target = np.ones((3, 2)), Target(self.potential)
        assert target.to_theta(theta) is theta
        assert target.to_position(theta) is theta

    @pytest.mark.parametrize(
        "start", [None, lambda rng, n: rng.uniform(-1.0, 1.0, (n, 2)), np.array([[0.5, 0.5], [-1.0, 0.0], [0.1, 0.9]])]
    )
    def test_starts_lie_in_the_domain(self, start):
        domain = Box(0.0, 2.0)
        points = Target(self.potential, domain, start).sample_start(np.random.default_rng(0), 100)
        assert points.shape == (100, 2)
        assert domain.contains(points).all()
        assert len(np.unique(points, axis=0)) > 1

    def test_domains_of_all_sorts(self):
        target = Target(self.potential, [constraint("a > b"), Ball([0.0, 0.0], 2.0)], names=["a", "b"])
        assert target.sampling_domain == HalfSpaces([[-1.0, 1.0]], [0.0]) & Ball([0.0, 0.0], 2.0)
        assert Target(self.potential, constraint("theta[0] > 1")).support == HalfSpaces([[-1.0, 0.0]], [-1.0])
        with pytest.raises(ValueError, match="names 'a', which is none of"):
            Target(self.potential, constraint("a > 0"))
        with pytest.raises(ValueError, match="domain must be a Domain"):
            Target(self.potential, "a")
        free = target.without_domain()
        assert free.sampling_domain == Unbounded()
        assert free.potentials is target.potentials and free.names == target.names

    def test_starts_far_from_the_origin_are_uniform(self):
        square = Polygon([[50, 50], [51, 50], [51, 51], [50, 51]])
        points = Target(self.potential, square).sample_start(np.random.default_rng(0), 50)
        assert square.contains(points).all() and len(np.unique(points)) == 100

    def test_starts_that_never_lie_in_the_domain(self):
        target = Target(self.potential, Box(0.0, 2.0), np.array([-1.0, -1.0]))
        with pytest.raises(ValueError, match="start must give points inside the domain, got 0 of 3"):
            target.sample_start(np.random.default_rng(0), 3)


def gamma(theta):
    """Log density of Gamma(2, 1), of each column, and its gradient."""
    return (np.log(theta) - theta).sum(axis=1), 1.0 / theta - 1.0


class TestNamesAndTransforms:
    whole = iv.LogDensity(gamma, gradient=True)

    def test_vectors_have_names(self):
        target = Target(self.whole, names={"rate": 2, "matrix": (1, 2), "one": ()})
        assert target.shapes == {"rate": (2,), "matrix": (1, 2), "one": ()} and target.dimension == 5
        assert target.support == Unbounded()
        with pytest.raises(ValueError, match=r"names must have 3 entries, got \{'x': \(2,\)\}"):
            Target(FunctionPotential(square, 3), names={"x": 2})

    def test_the_density_of_positions_integrates_to_one(self):
        target = Target(self.whole, names={"rate": 1}, transforms={"rate": "log"})
        density = lambda x: np.exp(-target.potential().energy(np.array([[x]])))[0]  # noqa: E731
        assert integrate.quad(density, -30.0, 6.0)[0] == pytest.approx(1.0, abs=1e-9)
        beta = iv.LogDensity(lambda p: stats.beta(2.5, 1.5).logpdf(p).sum(axis=1))
        target = Target(beta, names=["p"], transforms={"p": "logit"})
        assert integrate.quad(density, -40.0, 40.0)[0] == pytest.approx(1.0, abs=1e-9)

    def test_gradients_in_coordinates(self):
        target = Target(self.whole, names={"rate": 2, "free": ()}, transforms={"rate": "log"}, start=[1.0, 2.0, 3.0])
        check = target.check_gradient()
        assert check.passed and check.relative_error < 1e-7
        assert target.check_gradient({"rate": [0.5, 2.0], "free": 1.5}, seed=3).passed
        with pytest.raises(ValueError, match=r"theta must have a value for each of \['rate', 'free'\], got \['rate'\]"):
            target.check_gradient({"rate": [0.5, 2.0]})
        wrong = iv.LogDensity(lambda x: gamma(x)[0], lambda x: 1.0 / x)
        assert not Target(wrong, names={"rate": 2}, transforms={"rate": "log"}).check_gradient().passed

    def test_theta_is_what_is_sampled_and_started_from(self, draw, agrees):
        target = Target(self.whole, names={"rate": 1}, transforms={"rate": "log"})
        run = draw(target, iv.mala(), draws=40, thin=3, start={"rate": [2.0]})
        values = run.draws("rate")
        assert (values > 0.0).all()
        moments = np.stack([values.mean(axis=(1, 2)), (values**2).mean(axis=(1, 2))], axis=1)
        assert agrees(moments, [2.0, 6.0])
        flat = Target(
            iv.LogDensity(lambda x: gamma(x)[0] - np.log(x).sum(axis=1), lambda x: -np.ones_like(x)), names=["rate"]
        )
        assert flat.transforms is None
        values = draw(
            Target(flat.potentials, names={"rate": 1}, transforms={"rate": "log"}), iv.mala(), draws=40, thin=3
        )
        values = values.draws("rate")
        assert not agrees(np.stack([values.mean(axis=(1, 2)), (values**2).mean(axis=(1, 2))], axis=1), [2.0, 6.0])

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"transforms": {"b": "log"}}, r"transforms must hold names of \['a'\], got 'b'"),
            ({"transforms": {"a": "exp"}}, r"transforms\['a'\] must be one of 'log', 'logit', got 'exp'"),
            (
                {"transforms": {"a": "log"}, "domain": Box(0.0, 1.0)},
                "transforms must leave out 'a', which the domain constrains",
            ),
            ({"transforms": ["a"]}, "transforms must be a mapping"),
            ({"names": {"a": 0}}, r"names\['a'\] must be an integer >= 1"),
        ],
    )
    def test_what_cannot_be(self, settings, message):
        with pytest.raises(ValueError, match=message):
            Target(self.whole, **{"names": {"a": 2}} | settings)

    def test_starts_that_no_coordinate_reaches(self):
        target = Target(self.whole, start=[[1.0], [-1.0]], names=["a"], transforms={"a": "log"})
        with pytest.raises(ValueError, match=r"start must lie where .* allow it, got \[-1.0\]"):
            target.sample_start(np.random.default_rng(0), 5)


class TestWhatIsNoDensity:
    """Each error message has a suggestion."""

    model = iv.with_jacobian(lambda t: t, lambda t: np.ones((*t.shape, t.shape[1])))

    def test_has_a_suggestion(self):
        posterior = iv.Posterior(iv.Prior(a=iv.Normal(0, 1)), self.model, [0.0], iv.GaussianNoise(1.0))
        for value, message in (
            (self.model, r"a forward model needs a prior, data and noise, iv.Posterior\(prior, model, data, noise\)"),
            (lambda t: t, r"wrap a function that returns log densities by iv.LogDensity\(function, gradient"),
            (posterior, "which iv.sample takes as it is"),
            (3.0, "potentials must be a LogDensity, or a Potential, which has dimension, energy"),
        ):
            with pytest.raises(ValueError, match=message):
                Target(value)

    def test_densities_say_how_many_parameters_they_have(self):
        with pytest.raises(ValueError, match="dimension must be given"):
            Target(iv.LogDensity(gamma, gradient=True))
        with pytest.raises(ValueError, match=r"parameters must be None for a density without a prior, got \['a'\]"):
            Target(iv.LogDensity(gamma, gradient=True, parameters=["a"]), names=["a"])
