"""Evaluators of a user's own, right and wrong: what they give is checked, and what was drawn is kept."""

from __future__ import annotations

import copy
import signal

import numpy as np
import pytest
from evaluating import LENGTH, POSTERIOR, SAMPLERS, Own, same

import invsamp as iv
from invsamp.evaluate import Estimate, Evaluator, EvaluatorError, solve

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted


class TestOwn:
    @pytest.mark.parametrize("name", SAMPLERS)
    def test_the_same_draws(self, name):
        own = Own()
        assert isinstance(own, Evaluator)
        same(
            iv.sample(POSTERIOR, SAMPLERS[name], executor=own, **LENGTH), iv.sample(POSTERIOR, SAMPLERS[name], **LENGTH)
        )
        assert own.closed

    def test_all_rungs_ask_together(self):
        own = Own()
        iv.sample(POSTERIOR, SAMPLERS["ladder"], executor=own, **LENGTH)
        assert own.rounds.count(3) > 135 * 0.9

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            (lambda found: found[:-1], "must give 1 estimates, got 0"),
            (lambda found: [*found, *found], "must give 1 estimates, got 2"),
            (lambda found: None, "failed: TypeError: 'NoneType' object is not iterable"),
            (lambda found: [None], "must give an Estimate for each request, got None"),
            (lambda found: [tuple(found[0])], r"must give an Estimate for each request, got \("),
            (
                lambda found: [f._replace(energy=f.energy[:1]) for f in found],
                r"must give energies of shape \(3,\), gradients of shape \(3, 2\), got energies of shape \(1,\), ",
            ),
            (
                lambda found: [f._replace(gradient=f.gradient.T) for f in found],
                r"must give .*, got .* gradients of shape \(2, 3\)",
            ),
            (lambda found: [f._replace(gradient=None) for f in found], r"must .*, got energies of shape \(3,\)$"),
            (
                lambda found: [f._replace(energy_variance=f.energy) for f in found],
                "must give .*, got .* variances of energies",
            ),
            (lambda found: [f._replace(energy=["a", "b", "c"]) for f in found], "must give numbers: energies must"),
            (lambda found: [f._replace(energy=f.energy + 1j) for f in found], "must give numbers: energies must"),
            (lambda found: [f._replace(energy=f.energy > 0.0) for f in found], "must give numbers: energies must"),
            (lambda found: 1 / 0, "failed: ZeroDivisionError: division by zero"),
        ],
    )
    def test_nonsense_is_named(self, wrong, message):
        class GradientMistake(Own):
            def evaluate(self, requests):
                return wrong(super().evaluate(requests))

        own = GradientMistake()
        with pytest.raises(EvaluatorError, match=f"^the queue {message}"):
            iv.sample(POSTERIOR, iv.mala(), executor=own, **LENGTH)
        assert own.closed

    @pytest.mark.parametrize(
        ("mixed", "of", "at"),
        [
            (lambda requests, found: found[::-1], 2, 0),
            (lambda requests, found: [found[0], found[2], found[1]], 2, 1),
            (lambda requests, found: _by_fidelity(requests, found), 2, 1),
            (lambda requests, found: [found[0]] * len(found), 0, 1),
        ],
    )  # fmt: skip
    def test_answers_to_other_requests_are_named(self, mixed, of, at):
        class Mixed(Own):
            def evaluate(self, requests):
                found = super().evaluate(requests)
                return [copy.deepcopy(f) for f in mixed(requests, found)] if len(requests) > 2 else found

        own = Mixed()
        message = (
            f"the queue must give estimates in the order of the requests, got that of request {of} for request {at}"
        )
        with pytest.raises(EvaluatorError, match=message):
            iv.sample(POSTERIOR, SAMPLERS["ladder"], executor=own, **LENGTH)

    @pytest.mark.parametrize(("order", "row", "at"), [([2, 1, 0], 0, 2), ([0, 2, 1], 1, 2), ([1, 2, 0], 0, 2)])
    def test_rows_in_another_order_are_named(self, order, row, at):
        class Mixed(Own):
            def evaluate(self, requests):
                found = super().evaluate(requests)
                return [f if len(f.energy) == 1 else f.take(order) for f in found]

        message = f"in the order of a request's rows, got that of row {row} for row {at}"
        with pytest.raises(EvaluatorError, match=message):
            iv.sample(POSTERIOR, iv.mala(), executor=Mixed(), **LENGTH)

    def test_answers_that_come_late_are_named(self):
        class Late(Own):
            last = None

            def evaluate(self, requests):
                found, self.last = self.last, super().evaluate(requests)
                same = found and [len(f.energy) for f in found] == [len(r.position) for r in requests]
                return found if same else self.last

        message = "the queue must give the answer to this request, got the answer to the last request"
        with pytest.raises(EvaluatorError, match=message):
            iv.sample(POSTERIOR, iv.mala(), executor=Late(), check_gradient=False, **LENGTH)

    def test_one_array_for_several_requests_is_named(self):
        class Sharing(Own):
            def evaluate(self, requests):
                found, room = super().evaluate(requests), np.empty(3)
                if all(len(estimate.energy) == 3 for estimate in found):
                    for k, estimate in enumerate(found):
                        room[:] = estimate.energy
                        found[k] = estimate._replace(energy=room)
                return found

        with pytest.raises(EvaluatorError, match="each request energies of its own, got one array for several"):
            iv.sample(POSTERIOR, SAMPLERS["ladder"], executor=Sharing(), **LENGTH)

    def test_a_flat_density_is_no_late_answer(self):
        flat = iv.Target(
            iv.extending.FunctionPotential(lambda x: (np.zeros(len(x)), np.zeros(x.shape)), 2), iv.Box([0, 0], [1, 1])
        )
        alone = iv.sample(flat, iv.mala(), **LENGTH)
        same(iv.sample(flat, iv.mala(), executor=Own(), **LENGTH), alone)

    @pytest.mark.parametrize(("knows", "transforms"), [(True, {}), (False, {}), (True, {"x": "logit"})])
    def test_matrices_may_be_left_out(self, knows, transforms):
        """Bounded optimizations use them, with bounds or logits; unbounded ones use gradients only."""
        model = iv.with_jacobian(lambda x: 2.0 * x, lambda x: np.tile(2.0 * np.eye(2), (len(x), 1, 1)), ["x"])
        prior = iv.Prior(x=iv.Uniform([-1.0, -1.0], [1.0, 1.0]))
        posterior = iv.Posterior(prior, model, [1.0, 3.0], iv.GaussianNoise(0.5), transforms=transforms)
        asked = []

        class Plain(Own):
            def evaluate(self, requests):
                asked.extend(request.gradient for request in requests)
                found = [solve(posterior.potential(), request) for request in requests]
                return found if knows else [each._replace(gradient_variance=None) for each in found]

        run = iv.sample(posterior, executor=Plain(), draws=50, seed=1, progress=False)
        assert "curved" in asked
        assert len(run.report["modes"]["energies"]) == 1

    def test_single_precision_and_noise_pass(self):
        rng = np.random.default_rng(0)

        class Noisy(Own):
            def evaluate(self, requests):
                return [
                    Estimate(f.energy.astype(np.float32), f.gradient.astype(np.float32) * rng.uniform(0.9, 1.1))
                    for f in super().evaluate(requests)
                ]

        run = iv.sample(POSTERIOR, SAMPLERS["ladder"], executor=Noisy(), check_gradient=False, **LENGTH)
        assert run.theta.dtype == float

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            (lambda f: f._replace(energy_variance=None), "energies of shape .*, got .* variances of gradients"),
            (
                lambda f: f._replace(gradient_variance=f.gradient),
                r"energies .*, got .* variances of gradients of shape \(3, 2\)",
            ),
            (lambda f: f._replace(energy_variance=-f.energy_variance), "variances that are not negative, got -"),
        ],
    )
    def test_batches_come_with_their_variances(self, wrong, message):
        class GradientMistake(Own):
            def evaluate(self, requests):
                return [wrong(found) for found in super().evaluate(requests)]

        with pytest.raises(EvaluatorError, match=f"the queue must give {message}"):
            sampler = iv.samplers.sgld(
                1e-4, estimator=iv.estimators.minibatch(4), gradient_noise=iv.ladder.GradientNoise()
            )
            iv.sample(POSTERIOR, sampler, executor=GradientMistake(), check_gradient=False, **LENGTH)

    def test_writing_into_requests_has_no_effect_elsewhere(self):
        class Writing(Own):
            def evaluate(self, requests):
                found = super().evaluate(requests)
                for request in requests:
                    request.position[:] = np.nan
                return found

        alone = iv.sample(POSTERIOR, SAMPLERS["ladder"], **LENGTH)
        same(iv.sample(POSTERIOR, SAMPLERS["ladder"], executor=Writing(), **LENGTH), alone)

    def test_failing_as_it_is_opened_or_closed(self):
        class Bad(Own):
            def open(self, potentials):
                if self.when == "open":
                    raise OSError("no cluster")
                super().open(potentials)

            def close(self):
                raise OSError("no cluster")

        own = Bad()
        own.when = "open"
        with pytest.raises(EvaluatorError, match="the queue failed when it was opened: OSError: no cluster"):
            iv.sample(POSTERIOR, iv.mala(), executor=own, **LENGTH)
        own.when = "close"
        with pytest.warns(UserWarning, match="the queue failed when it was closed: OSError: no cluster"):
            run = iv.sample(POSTERIOR, iv.mala(), executor=own, **LENGTH)
        same(run, iv.sample(POSTERIOR, iv.mala(), **LENGTH))

    def test_solves_that_fail_are_counted_and_refused(self):
        class Failing(Own):
            def evaluate(self, requests):
                found = super().evaluate(requests)
                return [
                    f._replace(energy=np.where(r.position[:, 0] > 0.3, np.nan, f.energy))
                    for r, f in zip(requests, found, strict=True)
                ]

        run = iv.sample(POSTERIOR, iv.mala(), executor=Failing(), start=[0.0, 0.0], **LENGTH)
        assert run.report["failed_solves"]["fine"] > 10
        assert run.theta[..., 0].max() <= 0.3

    class Dying(Own):
        def evaluate(self, requests):
            if len(self.rounds) > 200:
                self.end()
            return super().evaluate(requests)

        def end(self):
            raise ConnectionError("the cluster is gone")

    def test_what_was_drawn_is_kept(self, tmp_path):
        settings = LENGTH | {"draws": 500}
        with pytest.warns(
            UserWarning, match=r"the queue .*the cluster is gone.*: the run holds the \d+ draws that were"
        ):
            run = iv.sample(POSTERIOR, iv.mala(), executor=self.Dying(), **settings)
        kept = run.theta.shape[1]
        assert 10 < kept < 500 and run.report["interrupted"]
        (reason,) = (text for text in run.warnings() if "the cluster is gone" in text)
        assert f"the run holds the {kept} draws that were made, of 500" in reason and reason in repr(run)
        run.save(tmp_path / "run.nc")
        assert reason == iv.load(tmp_path / "run.nc").warnings()[0]
        np.testing.assert_array_equal(run.theta, iv.sample(POSTERIOR, iv.mala(), **settings).theta[:, :kept])

    def test_one_that_hangs_can_be_left(self):
        """By a single Ctrl-C, which is that of the step that hangs."""

        class Hanging(self.Dying):
            def end(self):
                signal.raise_signal(signal.SIGINT)
                raise AssertionError("nothing waited for it")

        with pytest.warns(UserWarning, match=r"interrupted: the run holds the \d+ draws that were made, of 500"):
            run = iv.sample(POSTERIOR, iv.mala(), executor=Hanging(), **LENGTH | {"draws": 500})
        assert 10 < run.theta.shape[1] < 500

    def test_a_run_in_a_directory_resumes(self, tmp_path):
        settings = LENGTH | {"draws": 100}
        with pytest.raises(EvaluatorError, match="the cluster is gone") as error:
            iv.sample(POSTERIOR, iv.mala(), executor=self.Dying(), directory=tmp_path / "run", segment=10, **settings)
        assert "Continue it with invsamp.resume" in error.value.__notes__[0]
        part = iv.load(tmp_path / "run")
        reason = part.warnings()[0]
        assert "the cluster is gone" in reason and f"holds the {part.theta.shape[1]} draws" in reason
        more = iv.resume(tmp_path / "run", POSTERIOR, executor=Own(), progress=False)
        assert reason not in more.warnings() and not more.report["interrupted"]
        np.testing.assert_array_equal(more.theta, iv.sample(POSTERIOR, iv.mala(), **settings).theta)


def _by_fidelity(requests, found):
    """A potential that assumes one of each fidelity."""
    by_fidelity = {request.fidelity: estimate for request, estimate in zip(requests, found, strict=True)}
    return [by_fidelity[request.fidelity] for request in requests]
