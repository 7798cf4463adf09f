"""The boarding school's model and noise, against SciPy's; its posterior is tested by the example."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import solve_ivp

from invsamp.problems.influenza import BOYS, DAYS, IN_BED, outbreak, rhs


def test_the_model_is_that_of_a_general_solver() -> None:
    exact = solve_ivp(lambda t, x: rhs(t, x, (1.7, 0.5)), (0.0, 14.0), (BOYS - 1.0, 1.0), t_eval=DAYS, rtol=1e-10)
    posterior = outbreak()
    np.testing.assert_allclose(posterior.predict([[1.7, 0.5, 0.1]])[0, :, 0], exact.y[1], rtol=1e-5)
    found = posterior.log_likelihood([[1.7, 0.5, 0.1]])[0, :, 0]
    n = 1 / 0.1
    np.testing.assert_allclose(found, stats.nbinom.logpmf(IN_BED, n, n / (n + exact.y[1])), rtol=1e-4)
    poisson = outbreak("poisson").log_likelihood([[1.7, 0.5]])[0, :, 0]
    np.testing.assert_allclose(poisson, stats.poisson.logpmf(IN_BED, exact.y[1]), rtol=1e-4)
    with pytest.raises(ValueError, match="noise must be one of 'negative binomial', 'poisson', got 'normal'"):
        outbreak("normal")


def test_gradient() -> None:
    posterior = outbreak(rtol=1e-9)
    assert posterior.check_gradient([1.7, 0.5, 0.1]).passed and posterior.check_gradient([2.5, 0.8, 0.4]).passed
