"""Least squares for multiple shooting: what `MultipleShooting.fit` does, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from invsamp.arguments import generator, integer, real
from invsamp.solvers.ode.multiple_shooting.arrowhead_solver import ArrowEquations, levenberg_marquardt

Array = npt.NDArray[np.float64]


#: Squared residuals, in units of what the noise leads to expect, from which on a fit does not fit.
MISFIT = 4.0


class Unsolvable(ValueError):
    """Some segment fails where a fit begins."""


@dataclass(frozen=True, eq=False)
class ShootingFit:
    """Result of `MultipleShooting.fit`; prints as a table of the parameters, with what is wrong about it, if anything.

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

    @property
    def misfit(self) -> float:
        """``chi_square`` for each degree of freedom: about 1 if the model and the sds are right."""
        return self.chi_square / max(self.degrees_of_freedom, 1)

    def warnings(self) -> list[str]:
        """Faults of the fit: that it misses the data, or has not converged."""
        found = []
        if self.misfit > MISFIT:
            found.append(
                f"the fit misses the data: squared residuals are {self.misfit:.3g} times the value expected "
                "from noise_sd. The fit is in a local minimum, the model is wrong, or noise_sd is too small. "
                "Begin with other parameters or starts, take shorter segments, or observe more"
            )
        if not self.converged:
            found.append(
                f"the fit has not converged in {self.iterations} iterations. Either more are needed "
                "(max_iterations=), or the data hardly determine some parameters (see `sd`)"
            )
        return found

    def __str__(self) -> str:
        rows = zip(self.names, self.values, self.sd, strict=True)
        lines = [
            f"chi-squared {self.chi_square:.4g} for {self.degrees_of_freedom} degrees of freedom after "
            f"{self.iterations} iterations",
            *(f"{name:>12s} {value:12.5g} +- {sd:.2g}" for name, value, sd in rows),
        ]
        return "\n".join(lines + self.warnings())

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
    predict: Callable[[Array], Array],
    equations: Callable[[Array], ArrowEquations],
    data: Array,
    sd: Array,
    begin: tuple[Array, Array],
    names: tuple[str, ...],
    max_iterations: int,
) -> ShootingFit:
    """Weighted least squares of data (m,) with sds, from parameters (q,) and starts (segments, n_states).

    ``predict`` maps theta (1, q + segments * n_states) to (1, m), ``equations`` linearizes at one theta.

    Raises
    ------
    Unsolvable
        If the first trajectories cannot be solved.
    ValueError
        If the data leave something undetermined.
    """

    def cost(theta: Array) -> float:
        with np.errstate(over="ignore"):
            return 0.5 * float(np.sum(((data - predict(theta[None])[0]) / sd) ** 2))

    def solvable(theta: Array) -> ArrowEquations | None:
        found = equations(theta)
        return found if np.isfinite(found.corner).all() and np.isfinite(found.diagonal).all() else None

    p, starts = begin
    first = np.concatenate([p, starts.ravel()])
    system = solvable(first) if np.isfinite(cost(first)) else None
    if system is None:
        raise Unsolvable("parameters and starts must be solvable where the fit begins, but some segment failed")
    theta, system, iterations, converged = levenberg_marquardt(cost, solvable, first, system, max_iterations)
    if not system.determined():
        raise ValueError(
            "observed must determine the parameters and every segment's start: "
            "take longer segments, or continuity=, or observe more"
        )
    return ShootingFit(
        names=names,
        values=theta[: len(p)],
        starts=theta[len(p) :].reshape(starts.shape),
        chi_square=2.0 * cost(theta),
        degrees_of_freedom=len(data) - len(theta),
        iterations=iterations,
        converged=converged,
        equations=system,
    )
