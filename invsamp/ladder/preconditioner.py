"""Preconditioners beside those by name: the Gaussian of a mode, known before a run, and transport maps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from invsamp.kernels.metric import DenseMetric, LowRankMetric
from invsamp.modes import Modes
from invsamp.modes.modes import heaviest
from invsamp.stored import stored, stored_dataclass

#: Unknowns up to which a transport map is learned: its coefficients grow as their square.
MOST_MAPPED = 50


@stored
@dataclass(frozen=True, eq=False)
class Given:
    """It is in place before the first step, for all rungs, and stays: warm-up finds step sizes alone.

    Parameters
    ----------
    metric : DenseMetric or LowRankMetric
        That of the energy, as of a posterior's.
    """

    metric: DenseMetric | LowRankMetric

    @property
    def dimension(self) -> int:
        """Unknowns."""
        return len(self.metric.factor)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Given) and type(self.metric) is type(other.metric) and self._same(other.metric)

    def __hash__(self) -> int:
        return hash((type(self.metric), self.dimension))

    def _same(self, other: DenseMetric | LowRankMetric) -> bool:
        probe = np.cos(np.arange(self.dimension))[None]
        return len(other.factor) == self.dimension and np.array_equal(self.metric.color(probe), other.color(probe))

    def __repr__(self) -> str:
        rank = f", {len(self.metric.values)} directions" if isinstance(self.metric, LowRankMetric) else ""
        return f"Given({self.dimension} unknowns{rank})"

    def __str__(self) -> str:
        return "given (a mode's Gaussian)"


@stored_dataclass
class LearnedMap:
    """A transport map that warm-up learns, for each rung, with a linear metric in its coordinates."""

    def __str__(self) -> str:
        return "transport map"

    def check(self, dimension: int) -> None:
        """`ValueError` if there are too many unknowns."""
        if dimension > MOST_MAPPED:
            raise ValueError(
                f"preconditioner must not be transport_map() for more than {MOST_MAPPED} unknowns, got {dimension}: "
                "the draws of warm-up do not determine it. Use 'auto', a linear one"
            )


#: The forms of a run's preconditioner, once "auto" is resolved.
Preconditioner = str | Given | LearnedMap | None


def transport_map() -> LearnedMap:
    r"""Let warm-up learn a nonlinear transport map as the preconditioner of each rung.

    Kernels then move in coordinates z, with positions :math:`x = T(z)`, in which the target is closer to a normal
    distribution. The map is fitted to the draws that chains have made in warm-up and to the gradients there, at no
    further gradient. It is frozen after warm-up, and its exact Jacobian is part of the density, so that draws are
    exact however good it is. Families are a triangular map, for bent targets and funnels, the same with Student's
    tails, and a radial map; each is judged on chains that were left out, by the Fisher divergence J
    (`invsamp.transport.fisher_divergence`). Where none is better than a linear metric, that is used.

    Returns
    -------
    LearnedMap
        For the argument ``preconditioner`` of `mams`, `hmc`, `mala` and `ghmc`, with one temperature or several.

    Raises
    ------
    ValueError
        In a run: for more than 50 unknowns, for parameters with bounds at which moves are reflected, for noisy energies
        or gradients, and for other kernels.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> def banana(x):
    ...     away = x[:, 1] - x[:, 0] ** 2
    ...     return 0.5 * x[:, 0] ** 2 + 5 * away**2, np.stack([x[:, 0] - 20 * x[:, 0] * away, 10 * away], 1)
    >>> target = iv.Target(iv.extending.FunctionPotential(banana, 2))
    >>> sampler = iv.mams(preconditioner=iv.transport_map())
    >>> run = iv.sample(target, sampler, draws=200, warmup=300, seed=1, progress=False)
    >>> run.report["coordinates"][0]["family"]
    'triangular'

    References
    ----------
    Triangular maps of this kind: Marzouk, Moselhy, Parno and Spantini (2016), "Sampling via measure transport: an
    introduction", section 3; as preconditioners of MCMC: Parno and Marzouk (2018), SIAM/ASA Journal on Uncertainty
    Quantification 6, 645-682. Score matching: Hyvarinen (2005), Journal of Machine Learning Research 6, 695-709; here
    scores are known, and their mismatch is weighed robustly.
    """
    return LearnedMap()


def given(modes: Modes) -> Given:
    """The Gaussian of that mode which has the most mass.

    Raises
    ------
    ValueError
        If none has a Gaussian, or they are maxima of the likelihood.
    """
    best = heaviest("preconditioner", modes)
    if modes.gaussians is None:
        return Given(DenseMetric(np.linalg.cholesky(modes.covariances[best])))
    found = modes.gaussians[best]
    assert found is not None  # it has a share of the evidence
    return Given(found.metric)
