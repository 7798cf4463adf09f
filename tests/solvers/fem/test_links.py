from __future__ import annotations

import numpy as np
import pytest

from invsamp.solvers import fields


@pytest.mark.parametrize("field", [fields.LogitField("x", -1.0, 3.0), fields.SoftplusField("x")])
def test_values_lie_where_they_have_to_and_slopes_are_those_of_differences(field):
    theta, step = np.linspace(-30, 30, 13)[:, None], 1e-5
    at = field.at(np.zeros((1, 2)))
    values = at.values(theta)
    low, high = (-1.0, 3.0) if isinstance(field, fields.LogitField) else (0.0, np.inf)
    assert ((values > low) & (values < high)).all() or np.isclose(values, high).any()
    differences = (at.values(theta + step) - at.values(theta - step)) / (2 * step)
    np.testing.assert_allclose(at.pullback(theta, np.ones((13, 1))), differences, rtol=1e-5, atol=1e-9)


def test_bounds_are_checked():
    with pytest.raises(ValueError, match="upper must be"):
        fields.LogitField("x", 1.0, 0.5)
