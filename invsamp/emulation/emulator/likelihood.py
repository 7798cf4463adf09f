r"""The likelihood of the data where outputs are emulated: the emulator's variance counts with the noise.

The emulator gives principal components c of the outputs with variances :math:`S_k`. With slopes :math:`a_k` of the
log-likelihood by c, and the largest curvature b of the noise at any datum, in its own units, the log-likelihood gains

.. math:: \frac12 \sum_k \left[\frac{S_k a_k^2}{1 + b S_k} - \log(1 + b S_k)\right].

That is the log of its mean over the emulator's error where the noise is Gaussian and the same for all data. Elsewhere
it is an approximation by Laplace. It is the "marginal approximation" of Stuart and Teckentrup (2018), Mathematics of
Computation 87, eq. (3.3). With a smaller b, such as the mean over the data, the gain could exceed the misfit: the
worst fits would look best. Beyond :math:`b S_k = 1` the first term keeps its value, and the logarithm goes on as a
straight line. Otherwise the likelihood would look flat where next to nothing is known, and chains would go there.

With a misfit M above that of a perfect prediction, the first term has at least :math:`b = a \cdot a / 2 M`. Gaussian
noise of one scale for each datum never needs that. Where the scale follows the prediction, or data are correlated, the
curvature may be far larger than at any datum, and the gain would exceed the misfit.
"""

from __future__ import annotations

import numpy as np

from invsamp.emulation.emulator.outputs import Components
from invsamp.posing.noise.bound_likelihood import BoundNoise
from invsamp.protocols import Array, ExpectedMisfit

#: Steps of differences: of slopes for the curvature, and along a direction, in units of the noise; of the noise's
#: unknowns, relative to their size.
_STEP, _MOVE, _RELATIVE = 1e-3, 1e-5, 1e-5
#: Misfits below this are rounding.
_LEAST = 1e-6


class EmulatedLikelihood:
    """A noise as a posterior's energy takes it, of components in place of outputs.

    What a model has to return are columns: k components, the factor of the emulator's variances, and the log of the
    probability that the simulator does not fail.

    Parameters
    ----------
    noise : BoundNoise
        Of all outputs.
    components : Components
    scales : ndarray, shape (k,)
        Variances of the components where that factor is 1; 0 where they are known.
    """

    independent = False

    def __init__(self, noise: BoundNoise, components: Components, scales: Array) -> None:
        self._noise, self._components, self._scales = noise, components, scales
        self._fixed: float | None = None  # curvature of a noise without unknowns
        self._near: list[tuple[Array, Array]] | None = None  # outputs beside the data, with their slopes
        self._columns: list[int] | None = None  # of theta, on which the curvature depends
        self.names, self.size, self.outputs = noise.names, noise.size, len(scales) + 2
        self._certain = not scales.any()

    def observed(self, packed: Array) -> Array:
        """Outputs (batch, m) of columns."""
        return self._components.decode(packed[:, :-2]).y

    def accumulate(self, theta: Array, y: Array, value: Array, slope: Array) -> Array:
        """As `invsamp.posing.noise.bound_likelihood.BoundNoise.accumulate`."""
        known = np.isfinite(y).all(axis=1)
        if not known.all():
            value[~known] = np.nan
            found = np.zeros(y.shape)
            if known.any():
                parts = value[known], slope[known]
                found[known] = self.accumulate(theta[known], y[known], *parts)
                value[known], slope[known] = parts
            return found
        components, factor = y[:, :-2], y[:, -2]
        by_theta, fit = np.zeros(slope.shape), np.zeros(len(y))
        by_components = self._slopes(theta, components, fit, by_theta)
        value += fit + y[:, -1]
        slope += by_theta
        found = np.column_stack([by_components, np.zeros(len(y)), np.ones(len(y))])
        if not self._certain:
            self._widen(theta, components, factor, (fit, by_components, by_theta), value, slope, found)
        return found

    def cotangent(self, theta: Array, y: Array) -> Array:
        """The result of `accumulate`."""
        return self.accumulate(theta, y, np.zeros(len(y)), np.zeros(theta.shape))

    def expected_misfit(self) -> ExpectedMisfit | None:
        """As of the noise itself."""
        return self._noise.expected_misfit()

    def residuals(self, theta: Array, y: Array) -> Array:
        """As of the noise itself, (batch, m)."""
        return self._noise.residuals(theta, self.observed(y))

    def error_variance(self, theta: Array, y: Array) -> Array:
        """Variance (batch,) that the emulator's error gives the misfit."""
        by_components = self._slopes(theta, y[:, :-2], np.zeros(len(y)), np.zeros(theta.shape))
        variance, curvature = self._scales * y[:, [-2]], self._curvature(theta)[:, None]
        return np.asarray((variance * np.square(by_components) + 0.5 * np.square(curvature * variance)).sum(axis=1))

    def _slopes(self, theta: Array, components: Array, value: Array, slope: Array) -> Array:
        """Slopes (batch, k) of the log-likelihood by components; adds it and those by theta, in place."""
        decoded = self._components.decode(components)
        by_y = self._noise.accumulate(theta, np.ascontiguousarray(decoded.y), value, slope)
        return np.asarray((by_y * decoded.slope) @ self._components.rows.T)

    @np.errstate(over="ignore", invalid="ignore")  # where a scale of the noise has left floating point
    def _widen(
        self,
        theta: Array,
        components: Array,
        factor: Array,
        alone: tuple[Array, Array, Array],
        value: Array,
        slope: Array,
        found: Array,
    ) -> None:
        """Add what the variance of the emulator changes, in place; ``alone`` are value and slopes without it."""
        fit, a, by_noise = alone
        s, columns = self._scales * factor[:, None], self._changing(theta[:1])
        b, differences, widths = self._curvature_differences(theta, columns)
        by_perfect = np.zeros(slope.shape)
        misfit = self._perfect(theta, components, by_perfect) - fit
        counted = misfit > _LEAST
        misfit = np.where(counted, misfit, _LEAST)[:, None]
        square = np.square(a).sum(axis=1, keepdims=True)
        # that of the gain: at least what keeps it below the misfit
        bound = 0.5 * square / misfit
        more = bound > b * (1.0 + _RELATIVE)
        steep = np.where(more, bound, b)
        far, large = steep * s > 1.0, b * s > 1.0
        pull = np.where(far, 0.5 / steep, s / (1.0 + np.where(far, 1.0, steep * s))) * a
        capped = np.where(large, 1.0, b * s)
        loss = np.log1p(capped) + 0.5 * np.where(large, b * s - 1.0, 0.0)
        loss_slope = 1.0 / (1.0 + capped)  # by b s
        value += 0.5 * (pull * a - loss).sum(axis=1)
        by_s = 0.5 * (np.where(far, 0.0, np.square(a / (1.0 + np.where(far, 1.0, steep * s)))) - b * loss_slope)
        found[:, -2] += by_s @ self._scales
        by_steep = -0.5 * (np.square(pull) * np.where(far, 2.0, 1.0)).sum(axis=1, keepdims=True)
        by_b = np.where(more, 0.0, by_steep)[:, 0] - 0.5 * (s * loss_slope).sum(axis=1)
        by_bound = np.where(more, by_steep, 0.0)
        by_misfit = np.where(counted[:, None], -by_bound * bound / misfit, 0.0)
        found[:, :-2] -= by_misfit * a
        slope += by_misfit * (by_perfect - by_noise)
        along = pull + by_bound / misfit * a
        step = _MOVE / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-12)
        by_theta = np.zeros(slope.shape)
        moved = self._slopes(theta, components + step * along, np.zeros(len(value)), by_theta)
        found[:, :-2] += (moved - a) / step
        slope += (by_theta - by_noise) / step
        slope[:, columns] += by_b[:, None] * differences / widths

    def _perfect(self, theta: Array, components: Array, slope: Array) -> Array:
        """Log-likelihood (batch,) of data that are predicted exactly; adds its slope by theta, in place."""
        exact, value = self._noise.saturated(theta), np.zeros(len(theta))
        seen = np.isfinite(exact)
        y = exact if seen.all() else np.where(seen, exact, self._components.decode(components).y)
        self._noise.accumulate(theta, np.ascontiguousarray(y), value, slope)
        return np.where(np.isfinite(value), value, -np.inf)

    def _changing(self, theta: Array) -> list[int]:
        """Columns of theta (1, dimension) on which the curvature of any output depends."""
        if self._columns is None:
            moves = 1e-3 * np.maximum(np.abs(theta), 1e-3)
            moved = theta + np.diag(moves[0])
            changed = (self._of_outputs(moved) != self._of_outputs(theta)).any(axis=1)
            self._columns = np.flatnonzero(changed).tolist()
        return self._columns

    def _curvature(self, theta: Array) -> Array:
        """The noise's curvature (batch,) in its units, the largest over outputs."""
        if not self._noise.independent:
            return np.ones(len(theta))
        if not self.names:
            return np.full(len(theta), self._known(theta[:1]))
        return np.asarray(self._of_outputs(theta).max(axis=1))

    def _curvature_differences(self, theta: Array, columns: list[int]) -> tuple[Array, Array, Array]:
        """The same (batch, 1), its differences (batch, k) by some columns of theta, and over what; all in one call."""
        moves = _RELATIVE * np.maximum(np.abs(theta[:, columns]), _RELATIVE)
        moved = np.repeat(theta[None], 1 + 2 * len(columns), axis=0)
        for k, column in enumerate(columns):
            moved[1 + 2 * k, :, column] += moves[:, k]
            moved[2 + 2 * k, :, column] -= moves[:, k]
        found = self._curvature(moved.reshape(-1, theta.shape[1])).reshape(-1, len(theta))
        return found[0][:, None], (found[1::2] - found[2::2]).T, 2.0 * moves

    def _known(self, theta: Array) -> float:
        if self._fixed is None:
            self._fixed = float(self._of_outputs(theta).max())
        return self._fixed

    def _beside(self, theta: Array) -> list[tuple[Array, Array]]:
        """Outputs a little above and below the data, and their slopes divided by twice how far, for `_of_outputs`."""
        exact, scale = self._noise.saturated(theta)[0], self._components.scale
        seen = np.isfinite(exact)
        center = scale.encode(np.where(seen, exact, self._components.decode(np.zeros((1, len(self._scales)))).y[0]))
        moved = [scale.decode(center + move) for move in (_STEP, -_STEP)]
        return [(one.y, np.where(seen, one.slope, 0.0) / (2.0 * _STEP)) for one in moved]

    def _of_outputs(self, theta: Array) -> Array:
        """The noise's curvature (batch, m) at each datum."""
        if self._near is None:
            self._near = self._beside(theta[:1])
        above, below = (
            self._noise.cotangent(theta, np.broadcast_to(y, (len(theta), len(y))).copy()) * slope
            for y, slope in self._near
        )
        return np.asarray(np.maximum(below - above, 1e-12))
