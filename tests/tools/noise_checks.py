"""What every noise must do: derivatives, and draws that follow its density."""

from __future__ import annotations

import numpy as np


def check_derivatives(noise, y, data, *values, step=1e-5):
    """All derivatives of the sum of the log-likelihoods, at (batch, m), by differences of fourth order."""
    arguments = [y, *(np.broadcast_to(value, y.shape) for value in values)]

    def total(moved, k, at):
        changed = [part.copy() for part in arguments]
        changed[k][:, at] = moved
        return noise.evaluate(changed[0], data, *changed[1:])[0].sum(axis=1)

    _, *slopes = noise.evaluate(y, data, *arguments[1:])
    assert len(slopes) == len(arguments)
    for k, slope in enumerate(slopes):
        for at in range(y.shape[1]):
            x = arguments[k][:, at]
            h = step * np.abs(x)
            f = [total(x + j * h, k, at) for j in (-2, -1, 1, 2)]
            wanted = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
            np.testing.assert_allclose(np.broadcast_to(slope, y.shape)[:, at], wanted, rtol=1e-6, atol=1e-6)
