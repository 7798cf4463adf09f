"""Fields of ``run.report`` by name, as JSON stores them.

All may be missing, of a run that another user recorded. Lists have an entry for each rung, the cold one first, or for
each pair of neighbors; mappings one for each fidelity.
"""

from __future__ import annotations

from typing import TypedDict

from invsamp.protocols import Plain


class Repeated(TypedDict):
    """Differences of the energies of one fidelity when positions were evaluated again.

    See `invsamp.engine.rungs.model_checks`.
    """

    positions: int
    cause: str  # "batch", "calls", or nothing where the differences do not matter
    difference: float
    effect: float
    relative: float
    failed: int


class Descents(TypedDict):
    """Local optimizations of the chains of a rung in warm-up."""

    energies: list[float]
    moved: int
    unfinished: int


class StepStability(TypedDict):
    """Of a kernel that accepts every move, at the last draws (`invsamp.engine.rungs.step_stability`)."""

    share: float  # the step size over the longest stable one
    drift: float  # squared drift of a step over its squared noise
    longest: float | None  # stable step; None where the energy has no curvature
    evaluations: int  # of the checks, which are not counted among those of the run


class Stationarity(TypedDict):
    """See `invsamp.engine.rungs.stationarity.Stationarity`."""

    virial: float
    stray: float


class Misfit(TypedDict):
    """See `invsamp.protocols.ExpectedMisfit`."""

    data: int
    least: float
    mean: float
    sd: float
    low: float
    high: float


class FoundModes(TypedDict):
    """Minima that descents found, with their weights by Laplace and the draws that visited each.

    Without a prior, ``region`` has the box that was searched, as the lower and the upper end of each parameter. Then
    ``guessed`` is true if the scale of starts was guessed and the box does not hold the whole domain.
    """

    theta: list[list[float]]
    energies: list[float]
    weights: list[float]
    by_laplace: list[bool]
    mode_occupancy: list[int]
    descents: int
    unfinished: int
    endless: int
    away: list[str]
    flat: list[str]
    wandered: dict[str, float]
    searched: int
    unseen: float
    lowest_by: int
    from_prior: bool
    region: dict[str, list[float]]
    guessed: bool


class CenteringReport(TypedDict):
    """The form in which a parameter that depends on others was sampled, where the run chose it."""

    centered: list[object] | bool  # of each entry, in its shape
    reason: str  # what it was chosen by, or why nothing was
    evaluations: int  # beside those of the search for modes


class Round(TypedDict):
    """A round of warm-up in which a ladder is looked for."""

    steps: int
    betas: list[float]
    rejections: list[float]
    barrier: float
    barrier_error: float


class FoundLadder(TypedDict):
    """The ladder that warm-up found."""

    path: str
    betas: list[float]
    hottest_is_prior: bool
    limited: bool
    rounds: list[Round]


#: Evaluations, of all fidelities, by what they were for.
Spent = TypedDict(
    "Spent",
    {
        "descents": int,
        "descents_most": int,
        "points_most": int,
        "looks": int,
        "failed": int,
        "warm-up": int,
        "draws": int,
    },
    total=False,
)


class Budget(TypedDict):
    """Evaluations that a run may take, whether the user set them, and how many were made when warm-up was stopped."""

    evaluations: int
    given: bool
    stopped: int | None


class Pilot(TypedDict):
    """Effective draws per step in the pilot run: those that it ``promised``, and the ``asked`` minimum."""

    steps: int
    r_hat: float
    promised: float
    asked: float


class LearnedLevel(TypedDict):
    """Correction of a coarse fidelity that was learned: its kind, efficiency, pairs of solves and cost."""

    fidelity: str
    kind: str
    efficiency: float
    pairs: int
    failed: int
    relative_cost: float
    source: str
    enhanced: bool
    sd: dict[str, float]


class LearntCorrection(LearnedLevel, total=False):
    """Correction of the coarse fidelity on which chains move, and of those between it and the finest."""

    pays: bool
    every: int
    between: list[LearnedLevel]


class Coordinates(TypedDict):
    """The coordinates of a rung's steps: see `invsamp.engine.rungs.coordinate_quality.CoordinateQuality`."""

    family: str
    divergence: float
    largest: list[str]  # the parameters that contribute most to it
    windows: list[tuple[str, float]]  # family and divergence in each window of warm-up
    unmatched: float  # share of the mass where a transport map does not fit what has a scale, also beyond the draws
    unfit: float  # share of the draws at which a transport map does not fit


class Report(TypedDict, total=False):
    """Settings, counts and figures of a run."""

    sampler: str
    sampler_settings: str
    preconditioner: str | None
    boundary: str
    posed: dict[str, object]
    grids: dict[str, str]
    decisions: list[str]
    warnings: list[str]
    seed: int
    draws: int
    draws_planned: int  # those that were asked for
    warmup: int
    warmup_most: int
    thin: int
    chains: int
    ensemble_size: int  # chains that depend on each other; 1: none do
    seconds: float
    interrupted: bool  # whether there are fewer draws than were asked for
    stopped: str | None  # what ended the run then, where that is known
    warming: bool  # whether it is still in warm-up
    processes: dict[str, object]
    versions: dict[str, str]
    # of each rung
    targets: list[str]
    learned_targets: list[Plain | None]  # what they say, a user's own too
    temperatures: list[float] | None
    target_factors: list[list[float] | None]
    exact_energies: list[bool]
    fidelities: list[str]
    kernels: list[str]
    execution: list[str]  # of the last draws: "compiled", or Python and why
    step_sizes: list[float | None]
    step_size_source: list[str]
    preconditioner_matrices: list[list[object] | None]
    acceptance: list[float | None]
    clipped_noise: list[float | None]
    reference_eigenvalues: list[list[float] | None]  # of a mode's Gaussian that a kernel moves about, the largest first
    descents: list[Descents | None]
    uncovered_variance: list[float | None]
    stationarity: list[Stationarity | None]
    coordinates: list[Coordinates | None]
    step_stability: list[StepStability | None]
    reflections: list[int]
    cliffs: list[int]
    reflection_fallbacks: list[int]
    outside: list[float]
    # of each fidelity
    evaluations: dict[str, int]
    function_calls: dict[str, int]
    evaluation_seconds: dict[str, float]
    warmup_evaluations: dict[str, int]
    gradient_check_evaluations: dict[str, int]
    repeated: dict[str, Repeated]
    failed_solves: dict[str, int]
    failure_message: str | None
    swap_solves: dict[str, int]
    swap_solves_per_attempt: dict[str, float]
    # of each pair
    swap_rules: list[str]
    swap_attempts: list[int]
    swap_accepts: list[int]
    swap_least_chances: list[float]
    swap_worst_chains: list[dict[str, float]]
    swap_first_stage_accepts: list[int]
    swap_rejection: list[float | None]
    swap_noise_sd: list[float]
    discrepancy_residual_sd: list[float | None]
    # of the ladder
    swap_parities: int
    swaps_apart: list[list[int]]
    round_trips: int
    ladder: FoundLadder | None
    # of the posterior
    modes: FoundModes | None
    centering: dict[str, CenteringReport]
    at_minima: bool  # whether chains begin where optimizations end: not if these diverged, or end without mass
    led_astray: float | None
    unlooked: bool
    misfit: Misfit | None
    spent: Spent | None
    budget: Budget
    pilot: Pilot | None
    correction: LearntCorrection | None
    emulation: dict[str, object]  # of an emulated simulator: see `invsamp.emulation.findings`
