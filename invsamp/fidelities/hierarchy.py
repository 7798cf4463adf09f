"""Costs and differences of the levels of a hierarchy, and the optimal probabilities of a coupled sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp import arguments
from invsamp.arguments import array, instance, optional, real
from invsamp.evaluate.counted import CountedPotential
from invsamp.protocols import Array, Problem


@dataclass(frozen=True)
class Levels:
    """Costs and errors of a hierarchy, with the probabilities that suit it. Made by `measure_levels`.

    Costs are in seconds, or as given. ``errors`` are mean squares of the difference between each level and the finest.
    ``noise`` is that of a coupled sum with these probabilities. Both are for one direction in units of the posterior's
    precision (1 stands for the size of the gradient itself at a posterior draw).

    Examples
    --------
    >>> import invsamp as iv
    >>> levels = iv.fidelities.Levels(("coarse", "fine"), (1.0, 10.0), (0.3, 0.0), (1.0, 0.1), noise=1.0)
    >>> levels.names
    ('coarse', 'fine')
    """

    names: tuple[str, ...]
    costs: tuple[float, ...]
    errors: tuple[float, ...]
    probabilities: tuple[float, ...]
    noise: float

    @property
    def cost(self) -> float:
        """Expected cost of one coupled sum, in units of one solve of the finest level."""
        expected = sum(p * cost for p, cost in zip(self.probabilities, self.costs, strict=True))
        return expected / self.costs[-1]


def measure_levels(
    problem: Problem,
    theta: npt.ArrayLike,
    levels: Sequence[str] | None = None,
    *,
    noise: float = 1.0,
    costs: Sequence[float] | None = None,
) -> Levels:
    r"""Solve every level at some states, and find the cheapest probabilities of a coupled sum for a given noise.

    With :math:`e_l = E |g_L - g_l|^2` (:math:`e_{-1}` for no level at all, which cancels), level l adds
    :math:`(e_{l-1} - e_l) (1 / p_l - 1)` to the noise and :math:`p_l c_l` to the cost, so that
    :math:`p_l \propto \sqrt{(e_{l-1} - e_l) / c_l}`, at most 1 and not increasing. Squares are taken in the
    coordinates in which :math:`E[g g^T] = I`, which is the posterior's precision where the states are draws of it.

    Parameters
    ----------
    problem : Posterior or Target
    theta : array_like, shape (n, dimension)
        States, such as draws of a pilot run on a coarse fidelity: what counts is the noise where the chain will be.
    levels : sequence of str, optional
        Fidelities from coarse to fine. Default: all.
    noise : float, > 0
        Noise that a gradient may have, per direction and in units of the precision. A step h in whitened coordinates
        takes the share ``h * noise / 2`` of the injected noise.
    costs : sequence of float, optional
        Of one solve of each level. Default: seconds, measured here. They vary from run to run: print what is found,
        and write the probabilities into `coupled_sum`, so that the draws can be made again.

    Raises
    ------
    ValueError
        If there are fewer than two levels or than dimension + 1 states that can be solved, or a number is not positive.

    References
    ----------
    Rhee and Glynn (2015), Operations Research 63(5), Theorem 1 (variance of the coupled sum), section 4 (best choice).

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> def jacobian(a):
    ...     return np.ones((len(a), 1, 1))
    ...
    >>> coarse = iv.with_jacobian(lambda a: a + 0.3, jacobian)
    >>> fine = iv.with_jacobian(lambda a: a, jacobian)
    >>> prior, noise = iv.Prior(a=iv.Normal(0.0, 1.0)), iv.GaussianNoise(0.5)
    >>> posterior = iv.Posterior(prior, {"coarse": coarse, "fine": fine}, data=[1.0], noise=noise)
    >>> levels = iv.fidelities.measure_levels(posterior, np.linspace(0.0, 2.0, 8)[:, None], costs=[1.0, 10.0])
    >>> levels.names
    ('coarse', 'fine')
    """
    instance("problem", problem, Problem, "a Posterior or a Target")
    names = problem.fidelities if levels is None else arguments.names("levels", levels)
    if unknown := [name for name in names if name not in problem.fidelities]:
        raise ValueError(f"levels must be among {list(problem.fidelities)}, got {unknown}")
    if len(names) < 2:
        raise ValueError(f"levels must name at least two fidelities, got {list(names)}")
    noise = real("noise", noise, above=0)
    given = optional(array, "costs", costs, (len(names),), above=0)
    position = problem.to_position(np.atleast_2d(array("theta", theta)))
    potentials = [CountedPotential(problem.potential(name), name) for name in names]
    for potential in potentials:
        potential.energy_and_gradient(position[:1])  # what is compiled or factored at the first call is no cost
        potential.seconds = 0.0
    solved = [potential.energy_and_gradient(position) for potential in potentials]
    fine = np.isfinite([energy for energy, _ in solved]).all(axis=0)
    if fine.sum() <= problem.dimension:
        raise ValueError(f"theta must hold more than {problem.dimension} states that can be solved, got {fine.sum()}")
    spent = [e.seconds / len(position) for e in potentials] if given is None else given.tolist()
    gradients = np.stack([gradient[fine] for _, gradient in solved])
    lower = np.linalg.cholesky(gradients[-1].T @ gradients[-1] / fine.sum())
    errors = np.square(np.linalg.solve(lower, (gradients[-1] - gradients).reshape(-1, problem.dimension).T))
    errors = errors.mean(axis=0).reshape(len(names), -1).mean(axis=1)
    probabilities, left = _best_probabilities(errors, np.array(spent), noise)
    return Levels(names, tuple(spent), tuple(errors.tolist()), tuple(probabilities.tolist()), left)


def _best_probabilities(errors: Array, costs: Array, noise: float) -> tuple[Array, float]:
    """Probabilities of least cost for a noise, and the noise that they leave."""
    best = np.sqrt(_decreasing_ratios(-np.diff(errors), costs[1:], 1e-12 * errors[0] + np.finfo(float).tiny))

    def at(scale: float) -> Array:
        return np.concatenate([[1.0], np.minimum(1.0, scale * best)])

    def left(scale: float) -> float:
        return float(np.sum(-np.diff(errors) * (1.0 / at(scale)[1:] - 1.0)))

    low, high = 0.0, 1.0 / float(best.min())  # at the upper end all are certain, without noise
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if left(middle) > noise else (low, middle)
    return at(high), left(high)


def _decreasing_ratios(gains: Array, costs: Array, least: float) -> Array:
    """Gains over costs; a level with a smaller ratio than the next one is merged with it.

    Two levels of one probability are solved as one: the finer alone, so that it is its cost that counts.
    """
    blocks: list[tuple[float, float, int]] = []
    for gain, cost in zip(gains.tolist(), costs.tolist(), strict=True):
        block = (gain, cost, 1)
        while blocks and blocks[-1][0] / blocks[-1][1] <= block[0] / block[1]:
            worse = blocks.pop()
            block = (worse[0] + block[0], block[1], worse[2] + block[2])
        blocks.append(block)
    return np.concatenate([np.full(n, max(gain, least) / cost) for gain, cost, n in blocks])
