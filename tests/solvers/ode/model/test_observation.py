"""Observation models of ODEs: functions of states, masks and coarse fidelities."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from functions import lotka_volterra

import invsamp as iv
from invsamp.solvers.ode.model.ode_model import OdeModel

TIMES = np.arange(11.0)
THETA = np.array([[0.547, 0.0277, 0.800, 0.0241, 34.0, 5.94], [0.6, 0.03, 0.7, 0.02, 30.0, 7.0]])
NAMES = ("alpha", "beta", "gamma", "delta")
PRIOR = iv.Prior(**{name: iv.LogNormal(float(np.log(THETA[0, k])), 0.3) for k, name in enumerate((*NAMES, "u0", "v0"))})


MODEL = OdeModel(lotka_volterra, ("u", "v"), NAMES, rtol=1e-11, atol=1e-11)


def observe(model=MODEL, times=TIMES, **settings):
    return model.observe(times, ("u0", "v0"), **settings)


def differences(forward, theta):
    """Derivatives (batch, m, p) by Richardson's extrapolation of central differences: error of fourth order."""
    columns = []
    for j in range(theta.shape[1]):
        move = np.zeros_like(theta)
        move[:, j] = 1e-4 * theta[:, j]

        def slope(factor, move=move, j=j):
            there, back = forward(theta + factor * move), forward(theta - factor * move)
            return (there - back) / (2 * factor * move[:, j : j + 1])

        columns.append((4 * slope(1.0) - slope(2.0)) / 3)
    return np.stack(columns, axis=2)


def agree(jacobian, expected, tolerance=1e-6):
    scale = np.abs(expected).max(axis=(0, 1))
    return bool((np.abs(jacobian - expected).max(axis=(0, 1)) <= tolerance * scale).all())


def outputs(t, x, p):
    return x[0] + x[1], p[0] * np.log(x[0]) * math.exp(-0.1 * t), 1.0


class TestFunctionsOfStates:
    def test_values_are_the_function_of_the_observed_states(self):
        states = observe()(THETA).reshape(2, 11, 2)
        y = observe(of=outputs)(THETA).reshape(2, 11, 3)
        np.testing.assert_allclose(y[..., 0], states.sum(axis=2), rtol=1e-12)
        expected = THETA[:, :1] * np.log(states[..., 0]) * np.exp(-0.1 * TIMES)
        np.testing.assert_allclose(y[..., 1], expected, rtol=1e-12)
        np.testing.assert_array_equal(y[..., 2], 1.0)

    def test_symbolic_derivatives_agree_with_differences(self):
        forward = observe(of=outputs)
        assert forward.derivatives == "symbolic"
        y, jacobian = forward.jacobian(THETA)
        np.testing.assert_allclose(y, forward(THETA), rtol=1e-10)
        expected = differences(forward, THETA)
        assert agree(jacobian, expected)
        # control: without the function's own dependence on alpha the derivative would be found wrong
        states_only = jacobian.copy()
        states_only[:, 1::3, 0] -= y[:, 1::3] / THETA[:, :1]
        assert not agree(states_only, expected)

    def test_a_parameter_that_only_the_function_uses(self):
        decay = OdeModel(lambda t, x, p: (-p[0] * x[0],), ("x",), ("rate", "gain"), rtol=1e-10, atol=1e-12)
        forward = decay.observe(TIMES[1:], (2.0,), t0=0.0, of=lambda t, x, p: (p[1] * x[0] ** 2,))
        y, jacobian = forward.jacobian(np.array([[0.3, 5.0]]))
        expected = 5.0 * 4.0 * np.exp(-0.6 * TIMES[1:])
        np.testing.assert_allclose(y[0], expected, rtol=1e-7)
        np.testing.assert_allclose(jacobian[0], np.stack([-2 * TIMES[1:] * expected, expected / 5.0], 1), rtol=1e-6)

    def test_a_branch_falls_back_to_complex_step_and_says_so(self):
        branching = observe(of=lambda t, x, p: (x[0] * p[3] if t < 5.0 else x[1] ** 2,))
        assert branching.derivatives == "complex step"
        early = observe(of=lambda t, x, p: (x[0] * p[3],))
        late = observe(of=lambda t, x, p: (x[1] ** 2,))
        assert early.derivatives == "symbolic"
        for got, first, second in zip(
            branching.jacobian(THETA), early.jacobian(THETA), late.jacobian(THETA), strict=True
        ):
            np.testing.assert_allclose(got[:, :5], first[:, :5], rtol=1e-12)
            np.testing.assert_allclose(got[:, 5:], second[:, 5:], rtol=1e-12)

    def test_a_branch_on_a_state_takes_the_derivatives_of_its_side(self):
        branching = observe(of=lambda t, x, p: (x[0] * p[3] if x[0] > 20.0 else x[1] ** 2,))
        assert branching.derivatives == "complex step"
        above = observe(of=lambda t, x, p: (x[0] * p[3],))
        below = observe(of=lambda t, x, p: (x[1] ** 2,))
        high = observe(of=lambda t, x, p: (x[0],))(THETA) > 20.0
        assert 0 < high.sum() < high.size
        found, one, other = (each.jacobian(THETA) for each in (branching, above, below))
        np.testing.assert_allclose(found[0], np.where(high, one[0], other[0]), rtol=1e-12)
        np.testing.assert_allclose(found[1], np.where(high[..., None], one[1], other[1]), rtol=1e-12, atol=1e-14)

    def test_a_given_jacobian_is_used(self):
        calls = []

        def jacobian(t, x, p):
            calls.append(t)
            return [[2.0, 0.0, 0.0, 0.0, 0.0, 0.0]]

        twice = observe(of=lambda t, x, p: (2.0 * x[0] if x[0] > 0 else 0.0,), jacobian=jacobian)
        assert twice.derivatives == "given"
        y, found = twice.jacobian(THETA)
        y_states, expected = observe(states=("u",)).jacobian(THETA)
        np.testing.assert_allclose(y, 2.0 * y_states, rtol=1e-12)
        np.testing.assert_allclose(found, 2.0 * expected, rtol=1e-12)
        assert len(calls) == 2 * len(TIMES)

    def test_vector_jacobian_product(self):
        y, vjp = observe(of=outputs).linearize(THETA)
        cotangent = np.random.default_rng(0).standard_normal(y.shape)
        expected = np.einsum("bm,bmp->bp", cotangent, observe(of=outputs).jacobian(THETA)[1])
        np.testing.assert_allclose(vjp(cotangent), expected, rtol=1e-10)

    @pytest.mark.parametrize(
        "of",
        [
            lambda t, x, p: (np.log(x[0] - 1.0),),
            lambda t, x, p: (1.0 / (x[0] > 1.0),),
            lambda t, x, p: (math.log(float(x[0]) - 1.0),),
        ],
        ids=["numpy", "division", "domain"],
    )
    def test_outputs_that_are_not_finite_fail_their_rows_alone(self, of):
        # rows start at 34 and 0.9: the logarithm of a negative number, and a division by zero
        theta = THETA.copy()
        theta[1, 4] = 0.9
        forward = observe(times=[0.0], of=of, jacobian=lambda t, x, p: np.zeros((1, 6)))
        y = forward(theta)
        assert np.isfinite(y[0]).all() and not np.isfinite(y[1]).any()
        energy = iv.Posterior(PRIOR, forward, [0.0], iv.GaussianNoise(1.0)).potential().energy(np.log(theta))
        assert np.isfinite(energy[0]) and energy[1] == np.inf


class TestMask:
    MASK = (np.arange(22) % 3 > 0).reshape(11, 2)

    @pytest.mark.parametrize("settings", [{}, {"of": lambda t, x, p: (x[0] * x[1], x[0])}], ids=["states", "function"])
    def test_is_a_selection_of_all(self, settings):
        everything, some = observe(**settings), observe(mask=self.MASK, **settings)
        kept = self.MASK.ravel()
        assert some.n_observations == kept.sum()
        np.testing.assert_array_equal(some(THETA), everything(THETA)[:, kept])
        for got, expected in zip(some.jacobian(THETA), everything.jacobian(THETA), strict=True):
            np.testing.assert_array_equal(got, expected[:, kept])

    def test_data_where_it_is_true(self):
        data = observe()(THETA[:1]).reshape(11, 2)
        posterior = iv.Posterior(PRIOR, observe(mask=self.MASK), data[self.MASK], iv.GaussianNoise(1.0))
        np.testing.assert_allclose(posterior.predict(THETA[:1])[0], data[self.MASK])


class TestCoarse:
    def test_tolerance_alone_predicts_all_data(self):
        coarse = observe().coarsen(rtol=1e-3, atol=1e-4)
        assert coarse.data_indices is None and coarse.model.rtol == 1e-3
        error = np.abs(coarse(THETA) / observe()(THETA) - 1.0).max()
        assert 1e-8 < error < 0.05

    def test_a_part_of_the_times_is_a_selection_of_all(self):
        fine = observe(mask=TestMask.MASK)
        coarse = fine.coarsen(until=7.5, every=2).coarsen(every=2)
        np.testing.assert_array_equal(coarse.times, [0.0, 4.0])
        for got, expected in zip(coarse.jacobian(THETA), fine.jacobian(THETA), strict=True):
            np.testing.assert_allclose(got, expected[:, coarse.data_indices], rtol=1e-9, atol=1e-9)

    def test_energy_is_that_of_the_data_predicted(self):
        fine = observe()
        data = fine(THETA[1:]).reshape(11, 2)
        noise = iv.GaussianNoise(np.linspace(1.0, 3.0, 22).reshape(11, 2))
        posterior = iv.Posterior(PRIOR, {"coarse": fine.coarsen(until=4.0), "fine": fine}, data, noise)
        position = posterior.to_position(THETA)
        for method in ("energy", "energy_and_gradient"):
            fine_energy, coarse_energy = (
                np.ravel(
                    getattr(posterior.potential(name), method)(position)[0]
                    if "and" in method
                    else getattr(posterior.potential(name), method)(position)
                )
                for name in ("fine", "coarse")
            )
            left_out = posterior.log_likelihood(THETA, "fine")[:, 5:].sum(axis=(1, 2))
            np.testing.assert_allclose(fine_energy - coarse_energy, -left_out, rtol=1e-6, atol=1e-6)
        likelihood = posterior.log_likelihood(THETA, "coarse")
        np.testing.assert_array_equal(likelihood[:, 5:], 0.0)
        np.testing.assert_allclose(likelihood[:, :5], posterior.log_likelihood(THETA, "fine")[:, :5], atol=1e-6)
        prediction = posterior.predict(THETA, "coarse")
        assert np.isnan(prediction[:, 5:]).all() and np.isfinite(prediction[:, :5]).all()
        assert posterior.check_gradient(fidelity="coarse").passed

    def test_minibatches_of_the_data_predicted(self):
        fine = observe()
        data = fine(THETA[1:]).reshape(11, 2)
        posterior = iv.Posterior(PRIOR, {"coarse": fine.coarsen(until=4.0), "fine": fine}, data, iv.GaussianNoise(1.0))
        potential, position = posterior.potential("coarse"), posterior.to_position(THETA)
        assert potential.size == 10
        terms = potential.terms(position, np.tile(np.arange(10), (2, 1)))
        energy, gradient = potential.energy_and_gradient(position)
        np.testing.assert_allclose(terms.prior_energy + terms.energies.sum(axis=1), energy)
        np.testing.assert_allclose(terms.prior_gradient + terms.gradients.sum(axis=1), gradient)

    def test_an_unknown_scale_goes_with_its_data(self):
        fine = observe()
        prior = iv.Prior(**PRIOR.distributions, sd=iv.LogNormal(0.0, 1.0, shape=2))
        data = fine(THETA[1:]).reshape(11, 2)
        posterior = iv.Posterior(prior, {"coarse": fine.coarsen(until=4.0), "fine": fine}, data, iv.GaussianNoise("sd"))
        theta = np.concatenate([THETA, [[0.5, 2.0], [1.0, 3.0]]], axis=1)
        np.testing.assert_allclose(
            posterior.log_likelihood(theta, "coarse")[:, :5], posterior.log_likelihood(theta, "fine")[:, :5], atol=1e-6
        )
        assert posterior.check_gradient(theta[0], fidelity="coarse").passed


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: observe(of=outputs, states=("u",)), r"states and of exclude each other.*\('u',\)"),
        (lambda: observe(jacobian=lambda t, x, p: 0), "jacobian is the derivative of of, but"),
        (lambda: observe(of=3), r"of must be a function \(t, x, p\)"),
        (lambda: observe(of=lambda t, x, p: ()), r"at least one output, got \(\)"),
        (lambda: observe(of=lambda t, x, p: (x[2],)), "of.* must take 2 states and 4 parameters"),
        (
            lambda: observe(of=lambda t, x, p: (math.gamma(x[0]) if x[0] > 1 else x[1],)),
            "be traceable .*, or come with jacobian=",
        ),
        (lambda: observe(states="u"), "states must be a sequence of names of at least one entry"),
        (lambda: observe(mask=np.ones((11, 3), bool)), r"mask must be .* of shape \(11, 2\)"),
        (lambda: observe(mask=np.ones((11, 2))), "mask must be an array of bool"),
        (lambda: observe(mask=np.zeros((11, 2), bool)), "true somewhere"),
        (lambda: observe().coarsen(until=-1.0), "until must leave at least one datum .* got -1.0"),
        (lambda: observe().coarsen(every=0), "every must be an integer >= 1, got 0"),
        (lambda: observe().coarsen(rtol=2.0), "rtol must be .* got 2.0"),
        (
            lambda: observe(of=lambda t, x, p: (x[0],), jacobian=lambda t, x, p: [1.0]).jacobian(THETA),
            r"jacobian must return an array of shape \(1, 6\), got \(1,\)",
        ),
        (
            lambda: iv.Posterior(PRIOR, observe(), np.ones((12, 2)), iv.GaussianNoise(1.0)),
            r"data must hold the observations .* it has 22, got 24 data \(shape \(12, 2\)\)",
        ),
        (
            lambda: iv.Posterior(PRIOR, observe().coarsen(until=4.0), np.ones((11, 2)), iv.GaussianNoise(1.0)),
            "the finest of forward must predict all 22 data, got one for 10",
        ),
    ],
)
def test_bad_input_is_a_value_error_that_names_it(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def advice(rhs, p, start, until=2.0, **settings):
    model = OdeModel(rhs, ("x",), ("p",), **settings)
    forward = model.observe([0.5 * until, until], start, t0=0.0)
    assert forward.message is None
    forward.linearize(np.atleast_2d(p))
    return forward.message


def test_a_failure_says_its_status_and_what_to_try():
    stiff = advice(lambda t, x, p: (-p[0] * (x[0] - math.cos(t)),), [[1e7], [1.0]], (0.0,), method="RK45")
    assert "STIFF by RK45 after t = " in stiff and 'method="LSODA"' in stiff and "(1 of 2 traj" in stiff
    assert "diverges" in advice(lambda t, x, p: (p[0] * x[0] ** 2,), [1.0], (1.0,), method="LSODA")
    assert "the domain of rhs" in advice(lambda t, x, p: (math.sqrt(p[0] - t),), [0.5], (1.0,))
    assert "The event of stop= came" in advice(lambda t, x, p: (-p[0],), [1.0], (1.0,), stop=lambda t, x, p: x[0])
    model = OdeModel(lambda t, x, p: (p[0] * x[0],), ("x",), ("p",))
    forward = model.observe([400.0, 800.0], ("x0",), t0=0.0)
    forward.linearize(np.array([[1.0, 0.0]]))
    assert "NO_SENSITIVITIES" in forward.message and "max_steps" in forward.message


def test_formulas_of_names_are_observed():
    """As a function of (t, x, p) is; a state may be called x."""
    model = OdeModel(lambda t, x, p: (-p[0] * x[0], p[0] * x[0] - x[1]), ("x", "y"), ("rate", "volume"))
    forward = model.observe([1.0, 2.0], (1.0, 0.0), t0=0.0, of=["y / volume", "x + t * rate", "2.0"])
    same = model.observe(
        [1.0, 2.0], (1.0, 0.0), t0=0.0, of=lambda t, x, p: (x[1] / p[1], x[0] + t * p[0], 2.0 + 0.0 * x[0])
    )
    theta = np.array([[0.4, 2.0], [0.7, 3.0]])
    for one, other in zip(forward.jacobian(theta), same.jacobian(theta), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14, atol=1e-14)
    assert pickle.loads(pickle.dumps(forward.output)).function is forward.output.function  # one for each source
    assert forward.output_shape == (2, 3)
    posed = iv.Prior(rate=iv.LogNormal(0, 1), volume=iv.LogNormal(0, 1)), forward
    with pytest.raises(ValueError, match=r"arranged as the outputs of the forward model 'model', \(2, 3\)"):
        iv.Posterior(*posed, np.zeros((3, 2)), iv.GaussianNoise(1.0))
    for wrong in (["blood / volume"], ["y /"], ["y.real"], [3.0]):
        with pytest.raises(ValueError, match=r"of\[0\] must be a formula of the"):
            model.observe([1.0], (1.0, 0.0), t0=0.0, of=wrong)


def test_without_derivatives_a_posterior_says_why_unless_it_is_wrapped():
    model = OdeModel(lambda t, x, p: (p[0] * (x[0] // 1.0 + 1.0),), ("x",), ("p",))
    forward = model.observe([1.0, 2.0], (0.0,), t0=0.0)
    plain = iv.Posterior(iv.Prior(p=iv.Normal(0, 1)), {"fine": forward}, np.zeros(2), iv.GaussianNoise(1.0))
    assert np.isfinite(plain.potential().energy(np.array([[0.3]])))
    with pytest.raises(ValueError, match="no gradients of fidelity 'fine', got MALA: sensitivities need a rhs"):
        iv.sample(plain, iv.mala(), progress=False)
    wrapped = iv.finite_differences(forward, parameters=["p"])
    posterior = iv.Posterior(iv.Prior(p=iv.Normal(0, 1)), {"fine": wrapped}, np.zeros(2), iv.GaussianNoise(1.0))
    assert np.isfinite(posterior.potential().energy_and_gradient(np.array([[0.3]]))[1]).all()
