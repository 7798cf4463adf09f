"""Replica exchange with state-dependent noise on the two-mode mixture of Li, Lin, Zhang and Zhou (2023), section 5.1.

A short form of `examples/noisy_mixture.py`, whose samplers and measures these are: 4 batches of 32 runs of 10,000
steps, each batch with its own pilot.
"""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import pytest

from invsamp.presets import fast_resgld
from invsamp.swap.rules import naive
from invsamp.variances.models import known

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples"
NOISE = "state-dependent noise"


@pytest.fixture(scope="module")
def rows():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        example = runpy.run_path(str(EXAMPLES / "noisy_mixture.py"))
    noise = example["NOISES"][NOISE]
    samplers = example["samplers"](noise)
    chosen = {label: samplers[label] for label in ("reSGLD", "f-reSGLD, constant", "f-reSGLD, kernel ridge")}
    # wrong on purpose
    chosen["no swap penalty"] = fast_resgld(*example["LADDER"], estimator=noise, variance=known(), swap=naive())
    found = {label: example["describe"](example["sample"](sampler, 1000, seed=1)) for label, sampler in chosen.items()}
    for label, row in found.items():
        print(f"{label:24s}", *(f"{value:9.5f} +- {error:.5f}" for value, error in row))
    return found


def standard_errors_above(worse, better) -> float:
    (high, error), (low, other) = worse.divergence, better.divergence
    return (high - low) / math.hypot(error, other)


def close_to_the_truth(row, reference) -> bool:
    """Divergence below 0.3 of that of the reference, by three standard errors."""
    ratio = row.divergence.value / reference.divergence.value
    errors = (estimate.error / reference.divergence.value for estimate in (row.divergence, reference.divergence))
    return ratio + 3.0 * math.hypot(*errors) < 0.3


def test_order(rows):
    """Each gap above three standard errors."""
    constant = rows["f-reSGLD, constant"]
    assert standard_errors_above(rows["reSGLD"], constant) > 3.0
    assert standard_errors_above(constant, rows["f-reSGLD, kernel ridge"]) > 3.0


def test_kernel_ridge_is_close_to_the_truth(rows):
    assert close_to_the_truth(rows["f-reSGLD, kernel ridge"], rows["reSGLD"])


def test_true_variances_without_the_swap_penalty_are_rejected(rows):
    """Without it not even the true variance of the gradients gets there."""
    assert not close_to_the_truth(rows["no swap penalty"], rows["reSGLD"])
    assert not standard_errors_above(rows["f-reSGLD, constant"], rows["no swap penalty"]) > 3.0
