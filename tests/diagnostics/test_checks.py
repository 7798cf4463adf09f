"""Every warning has a case that triggers it and one that does not; the second differs in one figure only."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from invsamp.diagnostics import statistics
from invsamp.diagnostics.checks import diagnose, pilot_warnings

ROUNDS = [{"barrier": 3.0, "barrier_error": 0.01}, {"barrier": 3.1, "barrier_error": 0.01}]
FOUND = {"betas": [1.0, 0.1, 0.0], "limited": False, "hottest_is_prior": True, "rounds": ROUNDS}
REPORT = {
    "sampler": "test",
    "chains": 4,
    "draws": 1000,
    "thin": 5,
    "temperatures": [1.0, 3.0, 9.0],
    "fidelities": ["fine", "coarse", "coarse"],
    "step_sizes": [0.01, 0.02, None],
    "swap_attempts": [500, 500],
    "swap_accepts": [100, 100],
    "swap_noise_sd": [0.0, 3.0],
    "round_trips": 3,
    "clipped_noise": [0.0, 0.01, None],
    "uncovered_variance": [None, 0.05, 0.0],
    "evaluations": {"coarse": 1000, "fine": 1000},
    "failed_solves": {"coarse": 0, "fine": 50},
    "failure_message": "the mesh folded",
    "learned_targets": [None, {"least_over_most": 0.05, "energy_round_trips": 10}, {"anything": "else"}],
    "reflections": [10, 10, 10],
    "reflection_fallbacks": [0, 2, 0],
    "boundary": "reflect",
    "outside": [0.0, 0.0, 0.0],
    "swap_rejection": [0.5, 0.9],
    "ladder": FOUND,
    "warnings": [],
}


def table(**columns):
    good = {"mean": 0.0, "sd": 1.0, "mcse_sd": 0.05, "ess_bulk": 400.0, "ess_tail": 400.0, "r_hat": 1.01}
    return pd.DataFrame(
        {name: np.broadcast_to(columns.get(name, value), 2) for name, value in good.items()}, ["x", "y"]
    )


def test_a_run_at_every_limit_has_no_warnings():
    assert diagnose(table(), REPORT) == []


def test_what_a_report_does_not_hold_is_not_judged():
    assert diagnose(table(), {}) == []


def test_a_run_that_is_not_finished_says_so_unless_it_says_why():
    unfinished = {"interrupted": True, "draws": 185, "draws_planned": 1000, "stopped": None}
    assert only(diagnose(table(), unfinished)).startswith(
        "IV-UNFINISHED: the run is not finished: it holds 185 of 1000 draws per chain"
    )
    assert diagnose(table(), unfinished | {"interrupted": False}) == []
    interrupted = unfinished | {"stopped": "interrupted", "warnings": ["interrupted"]}
    assert diagnose(table(), interrupted) == ["interrupted"]
    spent = "IV-BUDGET: sampling stopped after 185 of 1000 draws"
    assert diagnose(table(), unfinished | {"warnings": [spent]}) == [spent]  # which says why


def test_chains_that_do_not_agree_give_no_number_of_draws():
    near, apart = (diagnose(table(r_hat=value, ess_bulk=100.0), {"chains": 4, "draws": 1000}) for value in (1.1, 1.2))
    assert "about 4 times the draws (draws=4000) would do" in near[1]
    assert "How many draws would do cannot be estimated" in apart[1]


TWO = {"theta": [[0.0], [1.0]], "weights": [0.5, 0.5], "mode_occupancy": [0, 0], "endless": 0, "by_laplace": True}


RING = {"family": "linear", "divergence": 2.5, "largest": ["x", "y"], "windows": [("linear", 2.5)], "unfit": 0.0}


def test_bent_coordinates_are_no_fault_where_chains_agree():
    assert diagnose(table(), {"coordinates": [RING]}) == []
    (text,) = diagnose(table(), {"coordinates": [RING | {"family": "triangular", "unfit": 0.002}]})
    assert (
        text.startswith("IV-COORDINATES: the transport map (triangular) does not fit at 0.20% of the draws")
        and "x, y" in text
    )
    assert diagnose(table(), {"coordinates": 2 * [RING | {"unfit": 0.1}]}) == []  # swaps move the chains, too


@pytest.mark.parametrize(
    ("report", "cause"),
    [
        ({"modes": TWO}, "found 2 modes"),
        ({"modes": TWO | {"by_laplace": False}}, "found 2 points that are flat in some direction, as on a ridge"),
        (
            {"modes": TWO, "decisions": ["a pilot run of 200 steps failed: back to ..."]},
            "no path length passed its pilot run, as where curvature varies much (a funnel, a bent ridge); ",
        ),
        ({"decisions": ["a pilot run of 200 steps failed: back to ..."]}, "no path length passed its pilot run"),
        ({"descents": [{"unfinished": 2, "moved": 0, "energies": []}]}, "2 chains did not converge. The density may"),
        (
            {"warnings": ["IV-GRADIENT: the gradient of 'fine' is not that of its energy"]},
            "a gradient is not that of",
        ),
        ({"coordinates": [RING]}, "(linear, Fisher divergence J 2.5), most of all along x, y: reparametrize them"),
    ],
)
def test_likely_causes_are_named(report, cause):
    (text,) = [message for message in diagnose(table(r_hat=1.3), report) if message.startswith("IV-RHAT")]
    assert "Likely: " in text
    assert cause in text
    assert "Likely" not in diagnose(table(r_hat=1.3), {})[0]


def only(messages):
    assert len(messages) == 1, messages
    return messages[0]


@pytest.mark.parametrize(
    ("columns", "parts"),
    [
        ({"r_hat": [1.011, 1.0]}, ["R-hat", "x 1.011", "warmup", "hotter"]),
        ({"r_hat": [1.02, 1.5]}, ["y 1.500, x 1.020"]),  # the worst first
        ({"ess_bulk": [399.0, 800.0]}, ["ess_bulk", "below 400", "x 399", "Means", "draws=1100"]),
        ({"r_hat": [1.0102, 1.0]}, ["above 1.01: x 1.011"]),  # no figure that seems to be within the limit
        ({"ess_bulk": [399.7, 800.0]}, ["below 400: x 399"]),
        ({"mcse_sd": [0.04, 0.0502]}, ["above 5%: y 5.1%"]),
        ({"ess_bulk": [40.0, 800.0]}, ["about 10 times", "draws=10000"]),
        ({"ess_tail": [900.0, 200.0]}, ["ess_tail", "y 200", "quantiles", "draws=2000"]),
        (
            {"mcse_sd": [0.04, 0.1]},
            ["errors of sds are above 5%: y 10.0%", "quantiles of it have", "far out", "about 4 times", "draws=4000"],
        ),
        ({"mcse_sd": [0.1, 0.0], "ess_tail": [399.0, 800.0]}, ["ess_tail", "x 399"]),  # one message for one parameter
        ({"mean": [np.nan, 0.0], "sd": [np.nan, 1.0]}, ["x: some draws are NaN or infinite", "step_size"]),
        ({"mean": [np.inf, 0.0], "sd": [np.nan, 1.0]}, ["x: some draws are NaN or infinite"]),
        ({"sd": [1.0, 0.0], "r_hat": [1.0, np.nan]}, ["y: every draw has the same value", "step_size"]),
    ],
)
def test_warnings_about_the_draws(columns, parts):
    message = only(diagnose(table(**columns), REPORT))
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"swap_accepts": [100, 9]}, ["rungs 1 and 2 (temperatures 3 and 9)", "9 of 500", "1.80%", "between them"]),
        (
            {"swap_attempts": [0, 500], "swap_accepts": [0, 100]},
            ["no swap was attempted between rungs 0 and 1", "draws"],
        ),
        ({"round_trips": 0}, ["no replica made a round trip", "swap fraction"]),
        # a broken pair explains the missing round trips: one message, not two
        ({"swap_accepts": [0, 100], "round_trips": 0}, ["0 of 500"]),
        (
            {"clipped_noise": [0.011, 0.0, 0.0]},
            ["rung 0 (temperature 1)", "1.1%", "step_size (now 0.01)", "minibatches"],
        ),
        ({"clipped_noise": [0.0, 0.0, 0.1]}, ["rung 2 (temperature 9)", "above 1%", "Reduce step_size or"]),
        ({"clipped_noise": [0.11, 0.0, 0.0]}, ["11.0%", "above 10%", "do not use them"]),
        ({"uncovered_variance": [None, 0.06, 0.0]}, ["rung 1 (temperature 3)", "extrapolated at 6%", "Raise warmup"]),
        (
            {"failed_solves": {"coarse": 0, "fine": 51}},
            ["51 of 1000 solves of 'fine'", "5.1%", "The last failure said: the mesh folded.", "prior"],
        ),
        ({"reflection_fallbacks": [3, 0, 0]}, ["rung 0", "3 of 20000 steps", "step_size"]),
        (
            {"learned_targets": [{"least_over_most": 0.049, "energy_round_trips": 10}]},
            ["rung 0 (temperature 1)", "unevenly", "0.049 times", "raise warmup"],
        ),
        (
            {"learned_targets": [None, {"least_over_most": None, "energy_round_trips": 9}]},
            ["rung 1 (temperature 3)", "9 round trips", "below 10", "Raise draws"],
        ),
        ({"swap_noise_sd": [2.9, 3.2]}, ["rungs 1 and 2 (temperatures 3 and 9)", "sd 3.2", "minibatches"]),
        ({"draws": 3, "reflection_fallbacks": [0, 0, 0]}, ["3 draws per chain are too few", "draws=4"]),
        ({"chains": 1, "reflection_fallbacks": [0, 0, 0]}, ["one chain only", "chains=4"]),
        (
            {"boundary": "penalty 5", "outside": [0.0312, 0.1, 0.3]},
            ["3.12% of the draws lie outside the domain", "'penalty 5'", "boundary='reflect'"],
        ),
        ({"boundary": "project"}, ["'project'", "pile up", "boundary='reflect'"]),
        ({"warnings": ["the sampler said so"]}, ["the sampler said so"]),
        (
            {"swap_rejection": [0.5, 0.93]},
            ["rungs 1 and 2 (temperatures 3 and 9)", "reject 93% of the swaps, above 90%", "Raise warmup"],
        ),
        (
            {"swap_rejection": [0.91, 0.5], "ladder": FOUND | {"limited": True}},
            ["rungs 0 and 1", "Raise max_rungs (3 now) in auto_ladder()"],
        ),
        (
            {"ladder": FOUND | {"rounds": [ROUNDS[0], {"barrier": 3.2, "barrier_error": 0.05}]}},
            ["from 3.00 to 3.20 in the last round", "more than 5%", "raise warmup"],
        ),
    ],
)
def test_warnings_about_the_run(changes, parts):
    message = only(diagnose(table(), REPORT | changes))
    for part in parts:
        assert part in message


def test_hot_draws_outside_are_no_concern():
    assert diagnose(table(), REPORT | {"boundary": "ignore", "outside": [0.0, 0.1, 0.3]}) == []


def test_one_temperature_is_advised_to_take_a_ladder():
    single = {"chains": 4, "temperatures": [1.0], "swap_attempts": [], "swap_accepts": [], "round_trips": 0}
    assert diagnose(table(), single) == []
    assert "replica exchange" in only(diagnose(table(r_hat=1.2), single))


def test_the_ess_limit_grows_with_the_chains_up_to_four():
    assert diagnose(table(ess_bulk=199.0), {"chains": 2}) and diagnose(table(ess_bulk=200.0), {"chains": 2}) == []
    assert diagnose(table(ess_bulk=399.0), {"chains": 64}) and diagnose(table(), {"chains": 64}) == []


def test_many_bad_parameters_are_named_by_the_worst_three():
    names = [f"k[{i}]" for i in range(50)]
    summary = pd.DataFrame(
        {"mean": 0.0, "sd": 1.0, "ess_bulk": 500.0, "ess_tail": 500.0, "r_hat": np.linspace(1.02, 2, 50)}
        | {"mcse_sd": 0.03},
        names,
    )
    assert "k[49] 2.000, k[48] 1.980, k[47] 1.960 and 47 more" in only(diagnose(summary, {"chains": 4}))


def test_sds_of_heavy_tails_are_reported_as_not_converged(within):
    def shares(values):
        found = statistics(values)
        text = diagnose(pd.DataFrame(found, [f"x[{k}]" for k in range(values.shape[2])]), {"chains": 4, "draws": 2000})
        messages = [message for message in text if message.startswith("IV-SD")]
        assert bool(messages) == bool((found["mcse_sd"] > 0.05 * found["sd"]).any())
        return found["mcse_sd"] / found["sd"]

    rng = np.random.default_rng(1)
    # for a normal distribution it is .5 ** .5 over the root of 8,000; for 2.5 degrees of freedom it is infinite
    assert within(shares(rng.standard_normal((4, 2000, 40))).max(), 0.05)
    assert not within(shares(rng.standard_t(2.5, (4, 2000, 40))).max(), 0.05)


def test_a_barrier_that_moved_by_chance_is_not_warned_of():
    rounds = [{"barrier": 3.0, "barrier_error": 0.1}, {"barrier": 3.3, "barrier_error": 0.05}]
    assert diagnose(table(), REPORT | {"ladder": FOUND | {"rounds": rounds}}) == []


PILOT = {"steps": 200, "r_hat": 1.02, "promised": 0.28, "asked": 0.12}


def of_pilot(reached, every=1, **changes):
    """What is said of a run of 4,000 draws of which the worst quantile has so many effective ones per judged draw."""
    size = reached * 4 * -(-1000 // every)
    summary = pd.DataFrame({"ess_bulk": [4000.0, 2.0 * size], "ess_tail": [4000.0, size]}, ["x", "y"])
    return pilot_warnings(summary, {"chains": 4, "draws": 1000, "thin": 1, "pilot": PILOT | changes}, every)


def test_a_broken_promise_of_the_pilot_run_names_both_figures():
    (message,) = of_pilot(0.021)
    assert "per draw of 0.28" in message and "reached 0.021 (y)" in message


@pytest.mark.parametrize(
    ("reached", "changes", "warned"),
    [
        (0.069, {}, True),
        (0.071, {}, False),  # a quarter of what was promised
        (0.13, {"promised": 0.9}, False),  # the pilot run would have passed with it
        (0.021, {"steps": 501}, False),  # the run is hardly longer
    ],
)
def test_a_promise_is_broken_below_a_quarter_of_it(reached, changes, warned):
    assert bool(of_pilot(reached, **changes)) == warned


def test_promises_are_of_steps():
    """Of draws that are ten steps apart, or one in ten judged, ten times as many effective ones are promised."""
    assert of_pilot(0.2, every=10)
    assert not of_pilot(0.3, every=10)


def test_a_run_without_a_pilot_run_promises_nothing():
    summary = pd.DataFrame({"ess_bulk": [1.0], "ess_tail": [1.0]}, ["x"])
    assert pilot_warnings(summary, {"chains": 4, "draws": 1000, "pilot": None}) == []
    assert pilot_warnings(summary, {"chains": 4, "draws": 1000}) == []


class TestFormsOfAHierarchy:
    """Remedies name who chose the form, and the other one."""

    CHOSEN: ClassVar[dict] = {
        "centered": [True, False, False],
        "reason": "chosen: centered where data inform an entry more than its prior",
    }

    def funnel(self, centering: dict) -> str:
        found = diagnose(table(), REPORT | {"led_astray": 20.0, "centering": centering})
        return only([text for text in found if text.startswith("IV-FUNNEL")])

    def test_a_funnel_without_a_hierarchy_is_to_be_posed_as_one(self) -> None:
        assert 'pose them in one Prior, as Normal("mu", "tau")' in self.funnel({})

    def test_a_neck_is_no_fault_where_the_target_is_normal(self) -> None:
        """Of minima without a Gaussian that chains did not begin at; lone ends there are no modes either."""
        modes = {"weights": [1.0], "mode_occupancy": [9], "endless": 0, "by_laplace": [False], "theta": [[0.0]]}
        modes |= {"descents": 16, "unseen": 0.2, "lowest_by": 1}

        def codes(of: dict, **more: object) -> list[str]:
            quality = {"family": "triangular", "largest": [], "unfit": 0.0, "unmatched": 0.0} | of
            report = REPORT | {"modes": modes, "coordinates": [quality], "at_minima": False} | more
            return [text.split(":")[0] for text in diagnose(table(), report)]

        assert codes({"divergence": 0.005}) == []
        assert codes({"divergence": 0.2}) == ["IV-FUNNEL"]
        assert codes({"divergence": 0.005, "unmatched": 0.01}) == ["IV-FUNNEL"]
        assert codes({"divergence": 0.005, "unfit": 0.01}) == ["IV-COORDINATES"]
        assert codes({"divergence": 0.005}, at_minima=True) == ["IV-UNSEEN"]
        assert codes({"divergence": 0.005}, modes=modes | {"by_laplace": [True]}) == ["IV-UNSEEN"]
        assert codes({"divergence": 0.005}, modes=modes | {"endless": 1, "unseen": 0.0}) == ["IV-DIVERGED"]

    def test_a_given_form_is_to_be_left_out(self) -> None:
        assert "Leave centered= of theta out" in self.funnel({"theta": {"centered": [True], "reason": "given"}})

    def test_a_chosen_form_is_not_to_be_chosen_again(self) -> None:
        text = self.funnel({"theta": self.CHOSEN})
        assert "theta was sampled 1 of 3 centered, and centered=True in its distribution is the other one" in text
        assert "run then chooses" not in text and "pose" not in text
        whole = self.funnel({"theta": self.CHOSEN | {"centered": [True, True]}})
        assert "was sampled centered, and centered=False in its" in whole

    def test_few_effective_draws_name_the_form_and_how_many_draws_would_do(self) -> None:
        text = only(diagnose(table(ess_bulk=[40.0, 800.0]), REPORT | {"centering": {"theta": self.CHOSEN}}))
        assert "draws=10000) would do. If more draws are too expensive, try the other form: theta was" in text
