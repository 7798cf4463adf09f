"""What the columns of the data are called: by a table, by noises, by the model."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import invsamp as iv
from invsamp.posing.series import series_of

VALUES = np.array([[0.4, 0.6], [0.1, 0.9], [0.05, 0.95]])
TABLE = pd.DataFrame(VALUES, columns=["left", "right"])
BOTH = iv.Outputs(u=iv.GaussianNoise(0.1), v=iv.GaussianNoise(0.2))


@pytest.mark.parametrize(
    ("data", "noise", "told", "found"),
    [
        (TABLE, BOTH, ("a", "b"), ("left", "right")),
        (VALUES, BOTH, ("a", "b"), ("u", "v")),
        (VALUES, iv.GaussianNoise(0.1), ("a", "b"), ("a", "b")),
        (VALUES, iv.GaussianNoise(0.1), ("a",), None),
        (VALUES, iv.GaussianNoise(0.1), None, None),
        (VALUES[:, 0], iv.GaussianNoise(0.1), ("a",), ("a",)),
        (TABLE.set_axis([1900, 1901], axis="columns"), BOTH, None, ("1900", "1901")),
        (VALUES.ravel(), iv.Outputs.labelled(["u", "v"] * 3, BOTH.noises), None, None),
    ],
)
def test_the_first_that_tells_as_many_as_there_are(data, noise, told, found) -> None:
    model = SimpleNamespace() if told is None else SimpleNamespace(series=told)
    assert series_of(data, noise, model, np.shape(data)) == found
