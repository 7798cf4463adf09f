"""How well does a plate conduct, and where? Log conductivity in Karhunen-Loeve modes, from 25 temperatures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from invsamp.arguments import array, instance, integer, mapping, one_of, text
from invsamp.posing.distributions.univariate import Normal
from invsamp.posing.noise.continuous import GaussianNoise
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior
from invsamp.solvers.fem.boundary import Boundary, dirichlet, neumann
from invsamp.solvers.fem.contract import Array
from invsamp.solvers.fem.fields import LogField, Modes
from invsamp.solvers.fem.random_fields import KarhunenLoeve, Matern, karhunen_loeve, square_rule
from invsamp.solvers.poisson import PoissonEquation, PoissonObservation

#: Fidelity -> squares along one side, from coarse to fine.
MESHES = {"coarse": 16, "middle": 32, "fine": 64}
#: Of the mesh that made the data: none of the models is exact.
DATA_CELLS = 128

#: Heat flows in through the left side at a rate of 1 per length; the right side is kept at 0, the others insulate.
BOUNDARY: Boundary = {"left": neumann(1.0), "right": dirichlet(0.0)}
SENSORS = np.stack(np.meshgrid(*[np.linspace(0.1, 0.9, 5)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
#: Temperatures fall from about 1 to 0 along the plate.
NOISE_SD = 0.02

COVARIANCE = Matern(1.5, 0.3)
MODES = 20
TRUTH_SEED, DATA_SEED = 4, 5


@cache
def modes() -> KarhunenLoeve:
    """The modes of log conductivity, the same for every mesh; their coefficients are the unknowns."""
    return karhunen_loeve(COVARIANCE, *square_rule(20), count=MODES)


def equation(cells: int) -> PoissonEquation:
    """The plate on a mesh of ``cells x cells`` squares."""
    return PoissonEquation(cells, LogField(Modes("z", modes())), source=0.0, boundary=BOUNDARY)


def posterior(meshes: Mapping[str, int] = MESHES) -> Posterior:
    """Unknown coefficients z of `MODES` modes of log conductivity, each Normal(0, 1).

    Parameters
    ----------
    meshes : mapping from name to int
        Squares along one side, from coarse to fine.

    Returns
    -------
    Posterior
        Truth by `reference`.

    Raises
    ------
    ValueError
        If there is no mesh, or one has fewer than two squares along a side.
    """
    if not (listed := mapping("meshes", meshes)):
        raise ValueError("meshes must hold at least one mesh, got none")
    forward = {
        text("meshes", name): equation(integer(f"meshes[{name!r}]", cells, least=2)).observe(SENSORS)
        for name, cells in listed.items()
    }
    return Posterior(Prior(z=Normal(0.0, 1.0, shape=MODES)), forward, readings(), GaussianNoise(NOISE_SD))


def reference(problem: Posterior, draws: int, chains: int, seed: int, fidelity: str | None = None) -> Array:
    """Draws by a sampler that shares nothing with `invsamp.sample` and uses no gradients: elliptical slice sampling.

    Chains start in Student's t around the posterior's mode, with the Gauss-Newton precision there. The ellipses are
    drawn from it too. So it takes the place of the prior, and the posterior's ratio to it that of the likelihood.

    Parameters
    ----------
    problem : Posterior
        Of this module.
    draws, chains, seed : int
    fidelity : str, optional
        The finest by default.

    Returns
    -------
    array, shape (chains, draws, MODES)

    References
    ----------
    Nishihara, Murray and Adams (2014), JMLR 15, Algorithm 2; Murray, Adams and MacKay (2010), AISTATS, Figure 2.
    """
    instance("problem", problem, Posterior, "a Posterior of this module")
    draws, chains = integer("draws", draws, least=1), integer("chains", chains, least=1)
    dof, rng = 10.0, np.random.default_rng(integer("seed", seed, least=0))
    fidelity = problem.fidelities[-1] if fidelity is None else one_of("fidelity", fidelity, problem.fidelities)
    potential = problem.potential(fidelity)
    mode, precision = _mode(problem, fidelity)
    root = np.linalg.inv(np.linalg.cholesky(precision)).T

    def log_ratio(x: Array) -> Array:
        """Log of posterior over Student's t, in coordinates in which the t is round."""
        return 0.5 * (dof + MODES) * np.log1p(np.square(x).sum(axis=1) / dof) - potential.energy(mode + x @ root.T)

    def spread(x: Array, degrees: float) -> Array:
        """Scales (chains, 1) of Gaussians of which the t is made, given that they went through x."""
        return np.sqrt((dof + np.square(x).sum(axis=1)) / rng.chisquare(degrees, chains))[:, None]

    x = rng.standard_normal((chains, MODES)) * spread(np.zeros((chains, MODES)), dof)
    level, kept = log_ratio(x), np.empty((chains, draws, MODES))
    for draw in range(draws):
        other = rng.standard_normal(x.shape) * spread(x, dof + MODES)
        x, level = _along_ellipses(rng, x, other, level, log_ratio)
        kept[:, draw] = mode + x @ root.T
    return kept


def true_coefficients() -> Array:
    """Coefficients that made the data, shape (MODES,): a draw from the prior."""
    return np.random.default_rng(TRUTH_SEED).standard_normal(MODES)


@cache
def readings() -> Array:
    """The 25 temperatures: those of the true coefficients on a mesh of `DATA_CELLS`, with noise."""
    clean = equation(DATA_CELLS).observe(SENSORS)(true_coefficients()[None])[0]
    return clean + NOISE_SD * np.random.default_rng(DATA_SEED).standard_normal(len(SENSORS))


def log_conductivity(z: Array, points: Array) -> Array:
    """Log conductivity (..., n) at points (n, 2), for coefficients (..., MODES); `ValueError` for other shapes."""
    at = modes()(array("points", points, ("n", 2)))
    if (given := array("z", z)).shape[-1:] != (MODES,):
        raise ValueError(f"z must have shape (..., {MODES}), got {given.shape}")
    return np.asarray(given @ at.T)


def _along_ellipses(
    rng: np.random.Generator, x: Array, other: Array, level: Array, log_ratio: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """One elliptical slice for each chain: a point between x and ``other`` (chains, d) above a random level."""
    moved, reached = x.copy(), level.copy()
    floor = level - rng.exponential(size=len(x))
    angle = rng.uniform(0.0, 2 * np.pi, len(x))
    low, high = angle - 2 * np.pi, angle.copy()
    moving = np.arange(len(x))
    while moving.size:
        turn = angle[moving, None]
        proposal = x[moving] * np.cos(turn) + other[moving] * np.sin(turn)
        ratio = log_ratio(proposal)
        there = ratio > floor[moving]
        moved[moving[there]], reached[moving[there]] = proposal[there], ratio[there]
        moving = moving[~there]
        # the bracket shrinks towards angle 0, where the chain is
        below = angle[moving] < 0
        low[moving], high[moving] = (
            np.where(below, angle[moving], low[moving]),
            np.where(below, high[moving], angle[moving]),
        )
        angle[moving] = rng.uniform(low[moving], high[moving])
    return moved, reached


def _mode(problem: Posterior, fidelity: str) -> tuple[Array, Array]:
    """Where the posterior is densest, and the precision there without the model's second derivatives."""
    z, potential, model = np.zeros(MODES), problem.potential(fidelity), problem.forward[fidelity]
    assert isinstance(model, PoissonObservation)
    energy = potential.energy(z[None])[0]
    for _ in range(50):
        y, jacobian = model.jacobian(z[None])
        slope = jacobian[0] / NOISE_SD
        precision = slope.T @ slope + np.eye(MODES)
        move = np.linalg.solve(precision, slope.T @ (readings() - y[0]) / NOISE_SD - z)
        length = 1.0
        while length > 1e-6 and not (moved := potential.energy((z + length * move)[None])[0]) <= energy:
            length /= 2
        if length <= 1e-6:
            break
        z, energy = z + length * move, moved
        if np.abs(move).max() < 1e-8:
            break
    return z, precision
