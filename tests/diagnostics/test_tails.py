"""Shapes of tails: the estimator on its own distribution, and what runs say of heavy and light tails."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from invsamp.diagnostics.checks import diagnose, notes
from invsamp.diagnostics.convergence import ERRORS
from invsamp.diagnostics.draws import table
from invsamp.diagnostics.tails import pareto_shape, tail_shapes
from invsamp.engine.automatic.kernel_selection import KernelSelection
from invsamp.ladder.automatic import Automatic
from invsamp.results.run import Run


@pytest.mark.parametrize("shape", [-0.2, 0.0, 0.5, 1.0])
def test_the_shape_of_a_generalized_pareto_distribution(within, shape):
    uniform = np.random.default_rng(1).random((100, 1000))
    excess = np.sort(-np.log(uniform) if shape == 0.0 else (uniform**-shape - 1.0) / shape, axis=1)
    found = pareto_shape(3.0 * excess)
    # asymptotically (1 + shape) / sqrt(n), and a bias of order 1 / n; one false alarm in 100,000, and wrong by .1
    bound = 4.4 * (1.0 + shape) / np.sqrt(found.size * excess.shape[1]) + 3.0 / excess.shape[1]
    assert within(abs(found.mean() - shape), bound)
    assert not within(abs(found.mean() - shape - 0.1), bound)
    assert 0.7 < found.std() / ((1.0 + shape) / np.sqrt(excess.shape[1])) < 1.4


def test_weights_stand_for_the_tails_that_they_give():
    """Cauchy draws with weights for a normal distribution have light tails; normal draws can have heavy ones."""
    rng = np.random.default_rng(2)
    ess = np.array([4000.0])

    def shape(draws, log_weight):
        weight = np.exp(log_weight - log_weight.max())
        return tail_shapes(draws, weight[0] / weight.mean(), ess)[0, 0]

    cauchy, normal = rng.standard_cauchy((1, 4, 1000)), rng.standard_normal((1, 4, 1000))
    assert shape(cauchy, np.log1p(cauchy**2) - 0.5 * cauchy**2) < 0.1
    assert shape(normal, 1.2 * normal**2) > 0.5  # the index is 1 / 1.2
    np.testing.assert_allclose(tail_shapes(cauchy, np.ones((4, 1000)), ess), tail_shapes(cauchy, None, ess), rtol=1e-9)


@pytest.mark.parametrize("values", [np.zeros((1, 4, 500)), np.full((1, 2, 4), np.inf), np.ones((0, 4, 500))])
def test_where_there_is_no_tail_there_is_no_shape(values):
    with np.errstate(invalid="ignore"):
        assert np.isnan(tail_shapes(values, None, np.full(len(values), values[0].size if len(values) else 1.0))).all()


REPORT = {"chains": 4, "draws": 1000}


def messages_of(values):
    """Warnings and notes of each parameter by itself, of draws (chains, draws, parameters)."""
    names = [f"x[{k}]" for k in range(values.shape[2])]
    summary = pd.DataFrame(table(values, None), names)
    return [diagnose(summary.loc[[name]], REPORT) + notes(summary.loc[[name]], REPORT) for name in names]


def heavy(messages, starts=("IV-TAIL", "IV-NO-VARIANCE")):
    return [any(text.startswith(starts) for text in one) for one in messages]


def ar1(rng, correlation):
    """Normal draws (4, 1000, 40) with the autocorrelation of a first-order process."""
    noise = rng.standard_normal((4, 1000, 40))
    noise[:, 1:] *= np.sqrt(1.0 - correlation**2)
    for i in range(1, 1000):
        noise[:, i] += correlation * noise[:, i - 1]
    return noise


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_heavy_tails_are_reported_without_a_number_of_draws_and_light_ones_are_not(within, correlation):
    """Student's t distribution of 1, 2, 5 and 10 degrees, as a ratio of autocorrelated parts, and a normal one."""
    rng = np.random.default_rng(3)
    squares = np.cumsum([ar1(rng, correlation) ** 2 for _ in range(10)], axis=0)
    found = [messages_of(ar1(rng, correlation) / np.sqrt(squares[nu - 1] / nu)) for nu in (1, 2, 5, 10)]
    counts = [sum(heavy(messages)) for messages in (*found, messages_of(ar1(rng, correlation)))]
    assert not any("times the draws" in text for one in found[0] + found[1] if heavy([one])[0] for text in one)
    # 6% of those with two degrees are missed, and .5% of those with five reported, of 4,000 independent draws
    assert within(80 - sum(counts[:2]), 20)
    assert within(sum(counts[2:]), 10)
    assert not within(sum(counts[:2]), 10)
    # of no variance at all one degree, and of those with two, where it just diverges, few
    without = [sum(heavy(messages, ("IV-NO-VARIANCE",))) for messages in found]
    assert within(40 - without[0], 20 if correlation else 5)
    assert within(sum(without[2:]), 1)


def test_a_run_says_so_without_another_column_in_its_summary():
    draws = np.random.default_rng(4).standard_cauchy((1, 4, 1000, 1))
    run = Run.from_arrays(None, {"x": ()}, draws, {}, REPORT)
    (text,) = run.warnings()
    assert text.startswith("IV-NO-VARIANCE: there is no variance, with a tail index below 2, of x ") and text in repr(
        run
    )
    median, low, high = run.summary().loc["x", ["50%", "5%", "95%"]]
    assert "by quantiles, which have converged. Medians and 90% intervals: " in text
    assert f"x {median:.3g} ({low:.3g} to {high:.3g})" in text
    assert list(run.summary()) == [*("mean", "sd", "5%", "50%", "95%"), *ERRORS[:5]] and "tail_shape" not in repr(run)


def test_heavy_tails_are_a_note_where_quantiles_have_converged():
    """Of three degrees of freedom: the variance exists, its error does not."""
    rng = np.random.default_rng(8)
    draws = rng.standard_t(3, (1, 4, 4000, 1))
    run = Run.from_arrays(None, {"x": ()}, draws, {}, REPORT)
    (text,) = run.notes()
    assert text.startswith("IV-TAIL: tails are heavy") and f"note: {text}" in repr(run)
    assert not heavy([run.warnings()], ("IV-TAIL", "IV-NO-VARIANCE"))[0]
    slow = Run.from_arrays(None, {"x": ()}, np.repeat(draws[:, :, :50], 20, axis=2), {}, REPORT)
    assert slow.notes() == [] and any(text.startswith("IV-ESS") for text in slow.warnings())


def test_of_many_parameters_none_is_said_to_have_no_variance_by_chance():
    """The 49 of a funnel have all moments, but look like a tail index of about 2; those of a Cauchy do not."""
    rng, found = np.random.default_rng(9), []
    for _ in range(8):
        width = np.exp(1.5 * rng.standard_normal((4, 1000, 1)))
        for draws in (width * rng.standard_normal((4, 1000, 49)), rng.standard_cauchy((4, 1000, 49))):
            summary = pd.DataFrame(table(draws, None), [f"x[{k}]" for k in range(49)])
            (tails,) = [text for text in notes(summary, REPORT) if text.startswith("IV-TAIL")] or [""]
            found.append((any(text.startswith("IV-NO-VARIANCE") for text in diagnose(summary, REPORT)), bool(tails)))
    assert sum(without for without, _ in found[0::2]) <= 1
    assert all(noted for _, noted in found[0::2])
    assert all(without for without, _ in found[1::2])


def test_quantiles_that_have_not_converged_are_said_not_to_have():
    """Of a target without a variance whose chains are slow, and stand apart."""
    rng = np.random.default_rng(6)
    draws = np.repeat(rng.standard_cauchy((4, 50, 1)), 20, axis=1)
    summary = pd.DataFrame(table(draws, None), ["x"])
    messages = diagnose(summary, REPORT)
    assert any(text.startswith("IV-ESS: ess_bulk is below") for text in messages)
    assert not any("which have converged" in text for text in messages)


def test_a_target_without_a_variance_passes_its_trial():
    """Independent draws do: nothing that a trial is judged by is a moment."""
    rng, choice = np.random.default_rng(7), KernelSelection(Automatic().stages(2, 1), 2, to_prior=True)
    for _ in range(200):
        choice.add(rng.standard_cauchy((4, 2)), rng.standard_normal(4))
    assert choice.judged(2, lambda times: False)
    assert " passed" in choice.decisions[-1]


def test_one_heavy_tail_takes_the_numbers_of_draws_from_all_messages():
    """Slow chains of another parameter may have been as far as these, or not yet."""
    rng = np.random.default_rng(5)
    both = np.stack([rng.standard_cauchy((4, 1000)), ar1(rng, 0.9)[:, :, 0]], axis=2)
    slow = pd.DataFrame(table(both[:, :, 1:], None), ["y"])
    assert any("times the draws" in text for text in diagnose(slow, REPORT))
    messages = diagnose(pd.DataFrame(table(both, None), ["x", "y"]), REPORT)
    assert any(text.startswith("IV-ESS") for text in messages) and not any(
        "times the draws" in text for text in messages
    )
