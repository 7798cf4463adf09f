"""Fields in a prior: densities, white coordinates, and derivatives through the model."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import invsamp as iv
from invsamp.solvers import fields
from invsamp.solvers.fem.fields import Sum
from invsamp.solvers.fem.mesh import Mesh, unit_square
from invsamp.solvers.poisson import PoissonEquation

MESH = unit_square(4)


def observed(theta):
    """Three nodes, and a product of two."""
    return np.stack([theta[:, 3], theta[:, 12] * theta[:, 20], np.exp(theta[:, 7])], axis=1)


def jacobian(theta):
    slopes = np.zeros((len(theta), 3, theta.shape[1]))
    slopes[:, 0, 3] = 1.0
    slopes[:, 1, 12], slopes[:, 1, 20] = theta[:, 20], theta[:, 12]
    slopes[:, 2, 7] = np.exp(theta[:, 7])
    return slopes


PRIORS = {
    "known": lambda: iv.Prior(u=fields.matern(MESH, 0.6, sd=1.3, mean=0.5)),
    "unknown": lambda: iv.Prior(
        u=fields.matern(MESH, "r", "2 * s"), r=iv.LogNormal(-0.5, 0.3), s=iv.truncated(iv.Normal(0.5, 0.2), lower=0.05)
    ),
}


def posed(name):
    return iv.Posterior(PRIORS[name](), iv.with_jacobian(observed, jacobian), [0.3, -0.2, 1.0], iv.GaussianNoise(0.4))


@pytest.mark.parametrize("name", PRIORS)
class TestPosterior:
    def test_the_gradient_is_that_of_differences(self, name):
        posterior, rng = posed(name), np.random.default_rng(0)
        position, direction = rng.standard_normal((2, 4, posterior.dimension))
        potential, step = posterior.potential(), 1e-6
        gradient = potential.energy_and_gradient(position)[1]
        differences = (
            potential.energy(position + step * direction) - potential.energy(position - step * direction)
        ) / (2 * step)
        np.testing.assert_allclose((gradient * direction).sum(axis=1), differences, rtol=1e-5)

    def test_positions_are_white(self, name):
        posterior = posed(name)
        position = np.random.default_rng(1).standard_normal((3, posterior.dimension))
        np.testing.assert_allclose(posterior.to_position(posterior.to_theta(position)), position, atol=1e-9)
        white = posterior.log_prior_at(position) + 0.5 * (position[:, :25] ** 2).sum(axis=1)
        rest = posterior.log_prior_at(np.where(np.arange(posterior.dimension) < 25, 0.0, position))
        np.testing.assert_allclose(white, rest, rtol=1e-12)
        reference = posterior.reference()
        np.testing.assert_array_equal(reference.mean[:25], np.zeros(25))
        np.testing.assert_array_equal(reference.factor[:25], np.ones(25))

    def test_the_density_of_theta_is_that_of_the_field(self, name):
        prior = PRIORS[name]()
        theta = prior.sample(np.random.default_rng(2), 3)
        field = prior.distributions["u"].field
        for row, value in zip(theta, prior.log_density(theta), strict=True):
            if name == "known":
                apart = field.log_density(row[None])[0]
            else:
                own = field.log_density(row[None, :25], range=row[25], sd=2.0 * row[26])[0]
                apart = own + sum(prior.distributions[n].log_density(row[[k]])[0] for n, k in (("r", 25), ("s", 26)))
            assert value == pytest.approx(apart, rel=1e-10)

    def test_the_gradient_of_the_density_is_that_of_differences(self, name):
        prior, rng = PRIORS[name](), np.random.default_rng(3)
        theta, step = prior.sample(rng, 3), 1e-6
        direction = rng.standard_normal(theta.shape)
        differences = (prior.log_density(theta + step * direction) - prior.log_density(theta - step * direction)) / (
            2 * step
        )
        np.testing.assert_allclose((prior.gradient(theta) * direction).sum(axis=1), differences, rtol=1e-5)

    def test_it_travels(self, name):
        prior = PRIORS[name]()
        assert pickle.loads(pickle.dumps(prior)) == prior
        assert prior.fields == ("u",)


def test_a_field_of_another_mesh_is_refused():
    """A field with as many nodes, which sizes do not distinguish."""
    other = Mesh(MESH.points[::-1].copy(), 24 - MESH.cells)

    def posed_on(mesh, *others):
        conductivity = fields.LogField(Sum(fields.Nodal("u", mesh), *others))
        model = PoissonEquation(mesh=MESH, conductivity=conductivity).observe([[0.5, 0.5]])
        return iv.Posterior(PRIORS["known"](), {"fine": model}, [0.1], iv.GaussianNoise(0.1))

    posed_on(MESH)
    with pytest.raises(ValueError, match=r"prior must have 'u' on the mesh on which forward\['fine'\] takes it"):
        posed_on(other)
    with pytest.raises(ValueError, match="'u' must have its values at the nodes of one mesh, got two meshes"):
        posed_on(other, fields.SoftplusField(fields.Nodal("u", MESH)))


def test_what_depends_on_what_is_printed():
    assert str(PRIORS["unknown"]().graph).startswith("u[25] ~ matern(25 nodes, range=r, sd=2 * s, smoothness=1;")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: iv.Prior(u=fields.matern(MESH, "rho")), r"u must use names in the prior, \['u'\], got \['rho'\]"),
        (
            lambda: iv.Prior(u=fields.matern(MESH, "r"), r=iv.LogNormal(0, 1, shape=2)),
            r"must broadcast to a single number, \(\), got shape \(2,\)",
        ),
        (
            lambda: iv.Posterior(
                PRIORS["known"](),
                iv.with_jacobian(observed, jacobian),
                np.zeros(3),
                iv.GaussianNoise(0.1),
                domain="u[0] > 0",
            ),
            "u cannot be sampled without its transform",
        ),
    ],
)
def test_what_cannot_be_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_linear_problem_has_its_exact_posterior(draw, agrees):
    """One node observed: its posterior mean and variance, and its neighbor's, by conditioning; not the prior's."""
    field = fields.matern(MESH, 0.6)
    factor = field.at().color(np.eye(25))
    covariance = factor.T @ factor
    model = iv.with_jacobian(lambda t: t[:, [12]], lambda t: np.broadcast_to(np.eye(25)[[12]], (len(t), 1, 25)))
    posterior = iv.Posterior(iv.Prior(u=field), model, [1.5], iv.GaussianNoise(0.5))
    run = draw(posterior, iv.hmc(0.1), draws=15, warmup=10, seed=6)
    values = run.theta[:, :, [12, 13]].mean(axis=1)
    gain = covariance[[12, 13], 12] / (covariance[12, 12] + 0.25)
    assert agrees(values, 1.5 * gain)
    assert not agrees(values, 0.8 * 1.5 * gain)


@pytest.mark.parametrize("unknown", [{}, {"range": "rho", "sd": "tau"}])
def test_the_density_of_theta_is_that_of_prior_and_data(unknown) -> None:
    """For other software, although samplers move in white noise."""
    field = fields.matern(unit_square(3), **({"range": 0.4} | unknown))
    prior = iv.Prior(rho=iv.LogNormal(-1.0, 0.5), tau=iv.LogNormal(0.0, 0.5), u=field)
    rows = np.random.default_rng(0).standard_normal((3, field.size))
    model = iv.with_jacobian(
        lambda u: u @ rows.T, lambda u: np.broadcast_to(rows, (len(u), *rows.shape)), parameters=("u",)
    )
    noise = iv.GaussianNoise("rho + tau")
    posterior = iv.Posterior(prior, model, [0.1, 0.2, 0.3], noise)
    theta = prior.sample(np.random.default_rng(1), 2)
    value, slope = posterior.log_density(theta)
    expected = prior.log_density(theta) + posterior.log_likelihood(theta).sum(axis=1)
    np.testing.assert_allclose(value, expected)
    moves = 1e-5 * np.eye(theta.shape[1])
    up, down = (posterior.log_density(theta[0] + sign * moves)[0] for sign in (1.0, -1.0))
    np.testing.assert_allclose(slope[0], (up - down) / 2e-5, rtol=1e-4, atol=1e-4)
