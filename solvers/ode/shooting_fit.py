"""Least squares for multiple shooting: what `MultipleShooting.fit` does, and what it returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, generator, integer, real
from invsamp.solvers.ode.arrow import ArrowEquations, levenberg_marquardt

if TYPE_CHECKING:
    from invsamp.solvers.ode.shooting import MultipleShooting

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ShootingFit:
    """Result of `MultipleShooting.fit`.

    Attributes
    ----------
    names : tuple of str
        Of the ODE's parameters.
    values : ndarray, shape (q,)
        Their least-squares estimate.
    covariance : ndarray, shape (q, q)
        Of the estimate, with the starts unknown: the Schur complement's inverse. Its square root is the sd that
        Laplace's approximation gives the posterior under a flat prior.
    starts : ndarray, shape (segments, n_states)
    chi_square : float
        Sum of squared residuals in units of their sds.
    degrees_of_freedom : int
        Observations minus unknowns: what ``chi_square`` is about, if the model and the sds are right.
    iterations : int
    converged : bool
        Whether no step promised any more gain; False after the last iteration allowed.
    """

    names: tuple[str, ...]
    values: Array
    starts: Array
    chi_square: float
    degrees_of_freedom: int
    iterations: int
    converged: bool
    equations: ArrowEquations = field(repr=False)

    @property
    def covariance(self) -> Array:
        """Of ``values``, (q, q)."""
        return self.equations.parameter_covariance()

    @property
    def sd(self) -> Array:
        """Of ``values``, (q,)."""
        return np.sqrt(np.diag(self.covariance))

    def start(self, rng: np.random.Generator, chains: int, spread: float = 1.0) -> Mapping[str, Array]:
        """Starting points for ``invsamp.sample(..., start=...)``: name -> (chains, ...), parameters and ``starts``.

        Draws from Laplace's approximation with its sds multiplied by ``spread``; 0 starts every chain at the mode.
        """
        generator("rng", rng)
        spread, chains = real("spread", spread, least=0), integer("chains", chains, least=1)
        values, starts = (spread * part for part in self.equations.sample(rng, chains))
        by_name = {name: self.values[k] + values[:, k] for k, name in enumerate(self.names)}
        return by_name | {"starts": self.starts + starts}


def least_squares(
    shooting: MultipleShooting,
    observed: npt.ArrayLike,
    parameters: Mapping[str, float] | npt.ArrayLike,
    noise_sd: npt.ArrayLike,
    starts: npt.ArrayLike | None,
    max_iterations: int,
) -> ShootingFit:
    """See `MultipleShooting.fit`, whose arguments these are."""
    max_iterations = integer("max_iterations", max_iterations, least=1)
    if isinstance(parameters, Mapping):
        if set(parameters) != set(shooting.model.parameters):
            raise ValueError(f"parameters must give values for {shooting.model.parameters}, got {sorted(parameters)}")
        p = np.array([real(f"parameters[{name!r}]", parameters[name]) for name in shooting.model.parameters])
    else:
        p = array("parameters", parameters, (len(shooting.model.parameters),), empty=True)
    shape = len(shooting.begins), len(shooting.model.states)
    begin = _guess(shooting, observed) if starts is None else array("starts", starts, shape)
    data, sd = shooting.data(observed), shooting.scale(noise_sd)
    earlier = 0
    if shooting.continuity is not None:
        # far off, gaps that must close make the way down long and winding; free starts lead close to its end
        free = dataclasses.replace(shooting, continuity=None)
        loose = free.fit(observed, p, noise_sd, starts=begin, max_iterations=max_iterations)
        p, begin, earlier = loose.values, loose.starts, loose.iterations

    def cost(theta: Array) -> float:
        with np.errstate(over="ignore"):
            return 0.5 * float(np.sum(((data - shooting(theta[None])[0]) / sd) ** 2))

    def equations(theta: Array) -> ArrowEquations | None:
        found = shooting.equations(theta, data, sd)
        return found if np.isfinite(found.corner).all() and np.isfinite(found.diagonal).all() else None

    first = np.concatenate([p, begin.ravel()])
    system = equations(first) if np.isfinite(cost(first)) else None
    if system is None:
        raise ValueError(
            f"parameters and starts must be solvable where the fit begins, but some segment failed: {shooting.message}"
        )
    theta, system, iterations, converged = levenberg_marquardt(cost, equations, first, system, max_iterations)
    try:
        system.parameter_covariance()
    except np.linalg.LinAlgError:
        raise ValueError(
            "observed must determine the parameters and every segment's start: "
            "take longer segments, or continuity=, or observe more"
        ) from None
    return ShootingFit(
        names=shooting.model.parameters,
        values=theta[: len(p)],
        starts=theta[len(p) :].reshape(begin.shape),
        chi_square=2.0 * cost(theta),
        degrees_of_freedom=len(data) - len(theta),
        iterations=iterations + earlier,
        converged=converged,
        equations=system,
    )


def _guess(shooting: MultipleShooting, observed: npt.ArrayLike) -> Array:
    missing = [name for name in shooting.model.states if name not in (shooting.states or ())]
    if missing:
        raise ValueError(
            f"starts must be given where states are not observed, here {missing}: "
            f"starts=shooting.initial_guess(observed, unobserved={{...}}) takes values for them"
        )
    return shooting.initial_guess(observed)
