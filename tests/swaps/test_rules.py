"""Swap rules against their equations, and the penalty for noise against detailed balance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from scipy.special import ndtr

from invsamp.swaps.rules import (
    delayed_acceptance,
    metropolis,
    multi_variance,
    noise_penalty,
    product_target,
    state_dependent_penalty,
)

COLD, HOT = 1.5, 4.0
GAP = 1.0 / COLD - 1.0 / HOT
RULES = {
    "metropolis": metropolis(),
    "noise_penalty": noise_penalty(2.0),
    "state_dependent_penalty": state_dependent_penalty(),
    "multi_variance": multi_variance(0.3),
    "product_target": product_target(),
    "delayed_acceptance": delayed_acceptance(),
}


def stages_of(rule):
    """Coefficients (stages, 4) of the energies at two temperatures; what is learned of their difference has none."""
    stages = rule.stages()
    assert not any(any(stage[4:]) for stage in stages)
    return np.array([[weights.cold / COLD + weights.hot / HOT for weights in stage[:4]] for stage in stages])


def log_ratio(rule, energies, variances=(0.0, 0.0, 0.0, 0.0)):
    """Sum over the stages, energies in the order of the coefficients: c at c, c at h, h at h, h at c."""
    stages = stages_of(rule)
    means = stages @ np.asarray(energies)
    return float((means - stages**2 @ np.asarray(variances) / (2.0 * rule.factor)).sum())


energies = st.tuples(*[st.floats(-50.0, 50.0)] * 4)
variances = st.tuples(*[st.floats(0.0, 20.0)] * 4)


@given(energies, variances)
def test_equations(u, v):
    (cc, ch, hh, hc), (v_cc, v_ch, v_hh, v_hc) = u, v

    def close(rule, wanted):
        assert log_ratio(rule, u, v) == pytest.approx(wanted, abs=1e-9)

    close(metropolis(), GAP * (cc - hh))
    close(noise_penalty(2.0), GAP * (cc - hh) - GAP**2 * (v_cc + v_hh) / 4.0)
    close(state_dependent_penalty(), GAP * (cc - hh - GAP * (v_cc + v_hh) / 2.0))
    a, b = 0.3, 0.7
    differences = a * (cc - ch) + b * (hc - hh)
    noise = (a**2 * (v_cc + v_ch) + b**2 * (v_hh + v_hc)) / 2.0
    close(multi_variance(a), GAP * (differences - GAP * noise))
    product = (cc - ch) / COLD + (hh - hc) / HOT
    close(product_target(), product - ((v_cc + v_ch) / COLD**2 + (v_hh + v_hc) / HOT**2) / 2.0)


@given(energies)
def test_stages_of_delayed_acceptance(u):
    """Stage 1 delta (U_h(t_c) - U_h(t_h)), stage 2 (D(t_c) - D(t_h)) / tau_c; together the product target's ratio."""
    cc, ch, hh, hc = u
    first, second = stages_of(delayed_acceptance()) @ np.asarray(u)
    assert first == pytest.approx(GAP * (hc - hh), abs=1e-9)
    assert second == pytest.approx(((cc - hc) - (ch - hh)) / COLD, abs=1e-9)
    assert first + second == pytest.approx(log_ratio(product_target(), u), abs=1e-9)


def test_first_stage_needs_the_hot_model_alone():
    first, _ = delayed_acceptance().stages()
    assert first.cold_at_cold == first.cold_at_hot == (0.0, 0.0)


@pytest.mark.parametrize("name", RULES)
@given(u=energies, v=variances, constant=st.floats(-1e3, 1e3))
def test_a_constant_in_all_energies_changes_nothing(name, u, v, constant):
    shifted = [energy + constant for energy in u]
    assert log_ratio(RULES[name], shifted, v) == pytest.approx(log_ratio(RULES[name], u, v), abs=1e-8)


@pytest.mark.parametrize("name", RULES)
@given(u=energies)
def test_the_way_back_has_the_opposite_ratio(name, u):
    """Without noise, in each stage, where both rungs have one energy: that is detailed balance."""
    cold_at, hot_at = u[0], u[2]
    there = np.array([cold_at, hot_at, hot_at, cold_at])
    back = np.array([hot_at, cold_at, cold_at, hot_at])
    stages = stages_of(RULES[name])
    np.testing.assert_allclose(stages @ there, -(stages @ back), atol=1e-9)


@pytest.mark.parametrize("name", ["multi_variance", "product_target", "delayed_acceptance"])
@given(u=energies)
def test_crossed_rules_go_back_with_any_energies(name, u):
    cc, ch, hh, hc = u
    stages = stages_of(RULES[name])
    np.testing.assert_allclose(stages @ np.array(u), -(stages @ np.array([ch, cc, hc, hh])), atol=1e-9)


@pytest.mark.parametrize("name", RULES)
def test_one_energy_gives_one_ratio(name):
    """With a common noise-free energy all rules agree."""
    energies = (3.0, 1.0, 1.0, 3.0)
    assert log_ratio(RULES[name], energies) == pytest.approx(GAP * 2.0)


class TestPenalty:
    """Acceptance E[min(1, exp(noisy ratio - penalty))] over the noise, by fine quadrature."""

    u = np.array([2.0, 1.1, 0.4, 1.7])
    v = np.array([1.0, 2.5, 0.7, 1.3])

    def acceptance(self, stage, u, factor):
        coefficients = np.array(stage)
        variance = coefficients**2 @ self.v
        z = np.linspace(-9.0, 9.0, 40_001)
        density = np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
        ratio = coefficients @ u + math.sqrt(variance) * z - variance / (2.0 * factor)
        return trapezoid(np.minimum(1.0, np.exp(ratio)) * density, z)

    @pytest.mark.parametrize(
        "name", ["state_dependent_penalty", "multi_variance", "product_target", "delayed_acceptance"]
    )
    def test_keeps_detailed_balance(self, name):
        for stage in stages_of(RULES[name]):
            d, v = np.array(stage) @ self.u, np.array(stage) ** 2 @ self.v
            there, back = self.acceptance(stage, self.u, 1.0), self.acceptance(stage, -self.u, 1.0)
            assert there == pytest.approx(math.exp(d) * back, rel=1e-7)
            root = math.sqrt(v)
            closed = ndtr((d - v / 2.0) / root) + math.exp(d) * ndtr(-(d + v / 2.0) / root)
            assert there == pytest.approx(closed, rel=1e-7)

    @pytest.mark.parametrize("factor", [math.inf, 2.0])
    def test_less_of_it_does_not(self, factor):
        (stage,) = stages_of(state_dependent_penalty())
        d = np.array(stage) @ self.u
        there, back = self.acceptance(stage, self.u, factor), self.acceptance(stage, -self.u, factor)
        assert abs(math.log(there / back) - d) > 0.01 * abs(d)

    def test_swap_rate_without_a_gap(self):
        """2 Phi(-sqrt(v) / 2): 13% at sqrt v = 3."""
        stage = np.array(
            [weights.cold for weights in state_dependent_penalty().stages()[0][:4]]
        )  # 1 and infinite temperature
        self.v = np.array([4.5, 0.0, 4.5, 0.0])
        assert self.acceptance(stage, np.zeros(4), 1.0) == pytest.approx(2.0 * ndtr(-1.5), rel=1e-6)
        assert 2.0 * ndtr(-1.5) == pytest.approx(0.13, abs=0.005)


class TestMultiVariance:
    @given(st.floats(0.01, 100.0), st.floats(0.01, 100.0))
    def test_default_weight_has_the_least_variance(self, cold, hot):
        rule = multi_variance().resolve(cold, hot)
        assert rule.weight == pytest.approx(hot / (cold + hot))

        def variance(weight):
            (stage,) = stages_of(multi_variance(weight))
            return np.array(stage) ** 2 @ [cold, cold, hot, hot]

        assert all(variance(rule.weight) <= variance(w) * (1.0 + 1e-12) for w in np.linspace(0.0, 1.0, 21))

    def test_given_weight_is_kept(self):
        assert multi_variance(0.2).resolve(1.0, 3.0).weight == 0.2

    def test_no_noise_leaves_the_middle(self):
        assert multi_variance().resolve(0.0, 0.0).stages() == multi_variance(0.5).stages()

    @pytest.mark.parametrize("weight", [-0.1, 1.1, math.nan])
    def test_refuses(self, weight):
        with pytest.raises(ValueError, match=rf"weight must be a number in \[0, 1\], got {weight}"):
            multi_variance(weight)


@pytest.mark.parametrize("factor", [0.0, -1.0, math.nan])
def test_corrected_refuses(factor):
    with pytest.raises(ValueError, match=f"factor must be a positive number, got {factor}"):
        noise_penalty(factor)


def test_which_rules_need_one_energy():
    assert [name for name, rule in RULES.items() if rule.needs_common_energy] == [
        "metropolis",
        "noise_penalty",
        "state_dependent_penalty",
        "multi_variance",
    ]
    for make in (metropolis, noise_penalty, state_dependent_penalty, multi_variance):
        assert not make(assume_unbiased=True).needs_common_energy
