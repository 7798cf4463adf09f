"""Multiple shooting: a long trajectory cut into segments, each with its own unknown initial state.

Over a long time a chaotic or fast oscillating trajectory depends on its start so sharply that the likelihood has
countless modes. Over a short segment it does not: a posterior over parameters and segment starts is smooth and can be
sampled (Bock 1983, "Recent advances in parameter identification techniques for O.D.E."). The price is one block of
unknowns for each segment, on which only that segment's data depend.
"""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, increasing, instance, integer, mapping, numbers, optional, real, store
from invsamp.solvers.ode.integrators.solution import BoolArray, SensitiveSolution, Solution
from invsamp.solvers.ode.model.observation import as_mask, observed_states
from invsamp.solvers.ode.model.observation_base import ObservedTrajectories
from invsamp.solvers.ode.model.ode_model import OdeModel
from invsamp.solvers.ode.multiple_shooting.arrowhead_solver import ArrowEquations
from invsamp.solvers.ode.multiple_shooting.initial_guess import synchronized
from invsamp.solvers.ode.multiple_shooting.least_squares import MISFIT, ShootingFit, Unsolvable, least_squares
from invsamp.solvers.ode.multiple_shooting.partition import Layout, layout, segment_begins, smoothed

Array = npt.NDArray[np.float64]

#: Of states that are not observed: by what factors the ties are looser at first; and factors by which parameters differ
#: from those given, or at last from the best that were found, in fits that begin anew where one misses the data.
LOOSER, SPREADS, AROUND_THE_BEST = (16.0, 4.0), (1.0, 2.0, 3.0), (1.0, 1.2)


@dataclass(frozen=True, eq=False)
class MultipleShooting(ObservedTrajectories):
    r"""Observed states of an ODE over segments that start at unknown states, as a forward model.

    The unknowns are the ODE's parameters and ``starts``, the states at the segments' beginnings; in a prior one
    parameter of shape (segments, n_states). Observations are the observed states ordered by time, then by state.
    With ``continuity`` they are followed by the gaps

    .. math:: x(b_{k+1};\, b_k, s_k, p) - s_{k+1}, \qquad k = 1 \dots S - 1,

    which are data of value 0 with a known standard deviation: the starts are then tied together, softly.
    A segment that cannot be solved makes its observations NaN.

    Parameters
    ----------
    model : OdeModel
    times : array, shape (n_times,)
        Observation times, increasing. Each datum belongs to one segment: the last that begins not after it.
    segments : int or array of float
        Number of segments, with equally many times each up to one, each beginning at its first time; or the times
        at which the segments begin, the first not after ``times[0]``. The shorter the segments, the farther from
        the truth a fit may start and the less the data say: on Lorenz' system 0.5 is a good length.
    states : sequence of str, optional
        The observed states; all by default.
    continuity : None, float or sequence of n_states floats, > 0
        Standard deviation of the gaps, in the states' units; None leaves the starts free of each other. Free
        starts give calibrated parameters. A small sd adds information, and difficulty.
    mask : array of bool, shape (n_times, n_observed), optional
        Which of the observed states are observed at which time; all by default.

    Attributes
    ----------
    begins : ndarray, shape (segments,)
        Times at which the segments begin.
    parameters : tuple of str
        The model's, then ``"starts"``.

    Raises
    ------
    ValueError
        For times that do not increase, segments without data, unknown states, a parameter named ``starts``, and sds
        that are not positive.

    Notes
    -----
    All segments of all chains are integrated as one batch. The Jacobian is never formed: only its blocks, of
    n_parameters + n_states columns for each segment, are. Looser tolerances (`coarsen`) make a coarse fidelity with
    the same unknowns. Fewer segments do not: the unknowns would differ, and starts that a coarse model ignores would
    follow the prior alone, so that no swap with a fine model is accepted.

    Examples
    --------
    >>> import numpy as np
    >>> from invsamp.solvers.ode import MultipleShooting, OdeModel
    >>> decay = OdeModel(lambda t, x, p: [-p[0] * x[0]], ["x"], ["rate"])
    >>> shooting = MultipleShooting(decay, np.arange(1.0, 7.0), segments=2, continuity=0.01)
    >>> shooting.begins, shooting.parameters
    (array([1., 4.]), ('rate', 'starts'))
    """

    model: OdeModel
    times: Array
    segments: int | Sequence[float] | Array
    states: Sequence[str] | None = None
    continuity: float | Sequence[float] | Array | None = None
    mask: BoolArray | None = None
    begins: Array = field(init=False)
    parameters: tuple[str, ...] = field(init=False)
    _layout: Layout = field(init=False, repr=False)
    _timing: list[float] = field(default_factory=lambda: [0.0, 0.0], init=False, repr=False)
    _said: list[str] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        times = increasing("times", self.times)
        instance("model", self.model, OdeModel, "an OdeModel")
        if "starts" in self.model.parameters:
            raise ValueError(f"model must not have a parameter named 'starts', got {self.model.parameters}")
        observed = observed_states(self.model, self.states)
        n = len(self.model.states)
        if self.continuity is not None:
            sd = array("continuity", self.continuity, above=0)
            if sd.shape not in ((), (n,)):
                raise ValueError(f"continuity must be None or positive, a number or {n} of them, got {self.continuity}")
            store(self, continuity=np.broadcast_to(sd, (n,)))
        mask = as_mask(self.mask, (len(times), len(observed)))
        begins = segment_begins(times, self.segments)
        store(
            self,
            times=times,
            states=tuple(self.model.states[k] for k in observed),
            mask=mask,
            begins=begins,
            parameters=(*self.model.parameters, "starts"),
            _layout=layout(times, begins, observed, mask, n, self.continuity is not None),
        )

    def __call__(self, theta: Array) -> Array:
        """Observations (batch, m) at theta, shape (batch, n_parameters + segments * n_states)."""
        began = time.perf_counter()
        p, starts = self._split(theta)
        solution = self.model.solve(*self._rows(p, starts), t0=self._t0(len(p)))
        self._note(solution)
        y = self._observations(solution.states, starts)
        self._note_time(began, len(p))
        return y

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Observations (batch, m) and the product cotangent (batch, m) -> (batch, n_columns of theta)."""
        y, blocks = self.blocks(theta)
        batch, q = len(y), len(self.model.parameters)
        segments, slots, columns = blocks.shape[1:]
        n = columns - q
        where, gaps, data = self._layout.where, self._layout.gaps, self._layout.data

        def vjp(cotangent: Array) -> Array:
            padded = np.zeros((batch, segments * slots))
            padded[:, where] = cotangent
            with np.errstate(all="ignore"):  # far off, sensitivities overflow: that is a failed solve
                product = np.matmul(padded.reshape(batch, segments, 1, slots), blocks)[:, :, 0]
            if gaps:
                product[:, 1:, q:] -= cotangent[:, data:].reshape(batch, segments - 1, n)
            return np.concatenate([product[:, :, :q].sum(axis=1), product[:, :, q:].reshape(batch, -1)], axis=1)

        return y, vjp

    def blocks(self, theta: Array) -> tuple[Array, Array]:
        """Observations (batch, m), and the derivatives of each segment's states by parameters and its own start.

        The derivatives have shape (batch, segments, slots * n_states, n_parameters + n_states); a slot is one of the
        segment's times (or its end, for a gap), and the slots that a segment does not use are 0.
        """
        p, starts = self._split(theta)
        solution = self.model.solve_with_sensitivities(*self._rows(p, starts), t0=self._t0(len(p)))
        self._note(solution)
        y = self._observations(solution.states, starts)
        segments, slots = self._layout.grid.shape
        n = starts.shape[2]
        sensitivities = solution.sensitivities.reshape(len(p), segments, slots, n, p.shape[1] + n)
        sensitivities[:, ~np.isfinite(self._layout.grid)] = 0.0
        return y, sensitivities.reshape(len(p), segments, slots * n, -1)

    def data(self, observed: npt.ArrayLike) -> Array:
        """The data of a posterior, shape (m,), from observed states (n_times, n_observed): zeros for the gaps follow.

        What the mask leaves out may be NaN.
        """
        values = self._observed(observed)[self.mask]
        if not np.isfinite(values).all():
            raise ValueError("observed must be finite where the mask is true; leave out missing data by mask=")
        return np.concatenate([values, np.zeros(self._layout.gaps)])

    def scale(self, noise_sd: npt.ArrayLike) -> Array:
        """Standard deviations of `data`, shape (m,), from those of the noise, which broadcast to (n_times, n_observed).

        For `GaussianNoise`. An unknown sd is possible without ``continuity`` only, by naming it there.
        """
        shape = self._mask.shape
        sd = array("noise_sd", noise_sd, above=0)
        try:
            known = np.broadcast_to(sd, shape)[self._mask]
        except ValueError:
            raise ValueError(f"noise_sd must broadcast to {shape}, got shape {sd.shape}") from None
        if self.continuity is None:
            return known
        return np.concatenate([known, np.tile(np.asarray(self.continuity), len(self.begins) - 1)])

    def initial_guess(
        self, observed: npt.ArrayLike, *, window: int = 1, unobserved: Mapping[str, npt.ArrayLike] | None = None
    ) -> Array:
        """Segment starts, shape (segments, n_states), from data (n_times, n_observed).

        Parameters
        ----------
        observed : array, shape (n_times, n_observed)
        window : int
            1 interpolates the data as they are. More fits a parabola (a line through 2 or 3 points) to that many
            data nearest in time, which averages noise.
        unobserved : mapping from state to number or array (segments,)
            Starts of the states that are not observed: all of them must be given.
        """
        values, given = self._observed(observed), optional(mapping, "unobserved", unobserved) or {}
        assert self.states is not None
        if set(given) != set(self._unseen):
            raise ValueError(f"unobserved must give values for {self._unseen}, got {sorted(given)}")
        window = integer("window", window, least=1, most=len(self.times))
        starts = np.empty((len(self.begins), len(self.model.states)))
        for name, value in given.items():
            starts[:, self.model.states.index(name)] = value
        for column, name in enumerate(self.states):
            seen = self._mask[:, column]
            if not seen.any():
                raise ValueError(f"observed must have a datum of {name!r} where the mask is true, got none")
            starts[:, self.model.states.index(name)] = smoothed(
                self.times[seen], values[seen, column], self.begins, window
            )
        return starts

    def trajectory(self, theta: Array) -> Array:
        """States (batch, n_times, n_states), each segment simulated from its own start."""
        p, starts = self._split(theta)
        states = self.model.solve(*self._rows(p, starts), t0=self._t0(len(p))).states
        return states.reshape(len(p), -1, starts.shape[2])[:, self._layout.slot_of_time]

    def simulate(self, theta: Array, times: Array | None = None) -> Array:
        """States (batch, n_times, n_states) from the first segment's start alone, to compare with the data.

        ``times`` must not lie before the first segment; the observation times by default. A chaotic system leaves
        the data after some Lyapunov times, however good its parameters.
        """
        p, starts = self._split(theta)
        wanted = self.times if times is None else increasing("times", times)
        return self.model.solve(p, starts[:, 0], wanted, t0=float(self.begins[0])).states

    def fit(
        self,
        observed: npt.ArrayLike,
        parameters: Mapping[str, float] | npt.ArrayLike,
        noise_sd: npt.ArrayLike,
        *,
        starts: npt.ArrayLike | None = None,
        max_iterations: int = 100,
    ) -> ShootingFit:
        """Weighted least squares by Levenberg-Marquardt: the mode under a flat prior, and Laplace's approximation.

        Where states are not observed, ``continuity`` ties the starts first loosely, then as stated. Their first guess
        is the model run along the data, pulled to them. A fit that then misses the data begins again with other
        parameters. These are drawn within a factor of 2, then 3, and those that follow the data best are taken. At last
        it begins with those that fitted best so far. A fit that misses the data, or does not converge, warns.

        Parameters
        ----------
        observed : array, shape (n_times, n_observed)
        parameters : mapping from name to value, or array (n_parameters,)
            Where to begin.
        noise_sd : float or array
            As in `scale`.
        starts : array, shape (segments, n_states), optional
            Where to begin; by default `initial_guess` of the data, or that of states that are not observed.

        Returns
        -------
        ShootingFit
            Estimate, covariances, and starting points for a sampler.

        Raises
        ------
        ValueError
            If the first trajectories cannot be solved, the data leave something undetermined, or a name or a shape is
            wrong.

        Warns
        -----
        UserWarning
            With `ShootingFit.warnings`.
        """
        max_iterations, p = integer("max_iterations", max_iterations, least=1), self._begin(parameters)
        if starts is not None:
            begin = array("starts", starts, (len(self.begins), len(self.model.states)))
            fit = _fitted(self, observed, noise_sd, (p, begin), max_iterations)
        elif not self._unseen:
            fit = _fitted(self, observed, noise_sd, (p, self.initial_guess(observed)), max_iterations)
        else:
            fit = _fitted(self, observed, noise_sd, self._followed(observed, p, SPREADS[0], 0), max_iterations)
            for number, spread in enumerate((*SPREADS[1:], *AROUND_THE_BEST), 1):
                if fit.misfit <= MISFIT:
                    break
                around = p if number < len(SPREADS) else fit.values
                try:
                    again = _fitted(
                        self, observed, noise_sd, self._followed(observed, around, spread, number), max_iterations
                    )
                except ValueError:  # there the data leave something undetermined: what was found stands
                    continue
                fit = again if again.chi_square < fit.chi_square else fit
        for text in fit.warnings():
            warnings.warn(text, stacklevel=2)
        return fit

    def equations(self, theta: Array, data: Array, sd: Array) -> ArrowEquations:
        """Gauss-Newton equations of the weighted squares at one theta (n_columns,); data and sds as `data`, `scale`."""
        y, blocks = self.blocks(theta[None])
        where, data_end, q, weight = self._layout.where, self._layout.data, len(self.model.parameters), 1.0 / sd
        segments, slots, columns = blocks.shape[1:]
        n = columns - q
        residual, scaled = np.zeros(segments * slots), np.zeros(segments * slots)
        residual[where], scaled[where] = weight * (data - y[0]), weight
        matrix = blocks[0] * scaled.reshape(segments, slots, 1)
        transposed = matrix.transpose(0, 2, 1)
        gram = transposed @ matrix
        descent = (transposed @ residual.reshape(segments, slots, 1))[:, :, 0]
        diagonal, border = gram[:, q:, q:], gram[:, q:, :q]
        below = np.empty((0, n, n))
        if self._layout.gaps:
            # a gap also depends on the next start, by minus the identity
            ends = matrix.reshape(-1, columns)[where[data_end:]].reshape(segments - 1, n, columns)
            precision = weight[data_end:].reshape(segments - 1, n)
            crossed = -precision[:, :, None] * ends
            below = crossed[:, :, q:]
            diagonal[1:] += precision[:, :, None] ** 2 * np.eye(n)
            border[1:] += crossed[:, :, :q]
            descent[1:, q:] -= precision * residual[where[data_end:]].reshape(segments - 1, n)
        return ArrowEquations(
            diagonal, below, border, gram[:, :q, :q].sum(axis=0), descent[:, q:], descent[:, :q].sum(axis=0)
        )

    def coarsen(self, *, rtol: float | None = None, atol: float | None = None) -> MultipleShooting:
        """The same observations and unknowns with other tolerances, for a coarse fidelity."""
        return dataclasses.replace(self, model=self.model.with_tolerances(rtol, atol))

    @property
    def n_observations(self) -> int:
        """Length of a row of observations, gaps included."""
        return self._layout.data + self._layout.gaps

    def _begin(self, parameters: Mapping[str, float] | npt.ArrayLike) -> Array:
        """Where a fit begins, (n_parameters,)."""
        names = self.model.parameters
        if not isinstance(parameters, Mapping):
            return array("parameters", parameters, (len(names),), empty=True)
        if set(parameters) != set(names):
            raise ValueError(f"parameters must give values for {names}, got {sorted(parameters)}")
        return np.array([real(f"parameters[{name!r}]", parameters[name]) for name in names])

    @property
    def _unseen(self) -> list[str]:
        """States that are not observed."""
        return [name for name in self.model.states if name not in (self.states or ())]

    def _followed(self, observed: npt.ArrayLike, p: Array, spread: float, seed: int) -> tuple[Array, Array]:
        """Parameters and segment starts, those of unobserved states too."""
        columns = [self.model.states.index(name) for name in self.states or ()]
        values = np.where(self._mask, self._observed(observed), 0.0)
        found = synchronized(self.model, self.begins, self.times, values, self._mask, columns, p, spread, seed)
        if found is None:
            raise ValueError(
                f"parameters must be such that the model can be run along the data, to guess {self._unseen}, got "
                f"{dict(zip(self.model.parameters, p.tolist(), strict=True))}: "
                f"starts=shooting.initial_guess(observed, unobserved={{...}}) takes values for them"
            )
        return found

    @property
    def _mask(self) -> BoolArray:
        assert self.mask is not None  # set at construction
        return self.mask

    def _note(self, solution: Solution | SensitiveSolution) -> None:
        said = self.model.failure(solution, float(self.times[-1]))
        if said is not None:
            self._said[:] = [said]

    def _observed(self, observed: npt.ArrayLike) -> Array:
        values = numbers("observed", observed)
        if values.shape != self._mask.shape:
            raise ValueError(
                f"observed must have shape {self._mask.shape} (times, observed states), got {values.shape}"
            )
        return values

    def _split(self, theta: Array) -> tuple[Array, Array]:
        theta = numbers("theta", theta)
        q, n, segments = len(self.model.parameters), len(self.model.states), len(self.begins)
        if theta.ndim != 2 or theta.shape[1] != q + segments * n:
            raise ValueError(f"theta must have shape (batch, {q} + {segments} * {n}), got {theta.shape}")
        return theta[:, :q], theta[:, q:].reshape(len(theta), segments, n)

    def _rows(self, p: Array, starts: Array) -> tuple[Array, Array, Array]:
        """Parameters, initial states and times of all segments of all chains."""
        batch, segments, n = starts.shape
        return np.repeat(p, segments, axis=0), starts.reshape(-1, n), np.tile(self._layout.grid, (batch, 1))

    def _t0(self, batch: int) -> Array:
        return np.tile(self.begins, batch)

    def _observations(self, states: Array, starts: Array) -> Array:
        y = states.reshape(len(starts), -1)[:, self._layout.where]
        if self._layout.gaps:
            y[:, self._layout.data :] -= starts[:, 1:].reshape(len(starts), -1)
        return y


def _fitted(
    shooting: MultipleShooting, observed: npt.ArrayLike, noise_sd: npt.ArrayLike, begin: tuple[Array, Array], most: int
) -> ShootingFit:
    """Least squares, with looser ties first."""
    looser: list[float | Array | None] = []
    if shooting.continuity is not None:
        # far off, gaps that must close make the way down long and winding; free starts lead close to its end, but those
        # of states that no one saw would lead anywhere
        partly = len(shooting.states or ()) < len(shooting.model.states)
        looser = [factor * np.asarray(shooting.continuity) for factor in LOOSER] if partly else [None]
    iterations = 0
    for continuity in [*looser, shooting.continuity]:
        fit = _solved(dataclasses.replace(shooting, continuity=continuity), observed, noise_sd, begin, most)
        begin, iterations = (fit.values, fit.starts), iterations + fit.iterations
    return dataclasses.replace(fit, iterations=iterations)


def _solved(
    shooting: MultipleShooting, observed: npt.ArrayLike, noise_sd: npt.ArrayLike, begin: tuple[Array, Array], most: int
) -> ShootingFit:
    data, sd, names = shooting.data(observed), shooting.scale(noise_sd), shooting.model.parameters
    try:
        return least_squares(shooting, lambda theta: shooting.equations(theta, data, sd), data, sd, begin, names, most)
    except Unsolvable as error:
        raise ValueError(f"{error}: {shooting.message}") from None
