"""Warnings of steps that are too long for kernels that accept every move."""

from __future__ import annotations

from invsamp.diagnostics.report import StepStability
from invsamp.warning_codes import coded

#: Squared drift over squared noise of a step from which on the chains are not where the mass is: a Gaussian with a
#: step of 0.6 of the longest stable one has 1.5, one of 0.75 has 3.
DRIFT_LIMIT = 3.0
#: Share of the longest stable step above which variances along the stiffest direction are more than a third too large:
#: they are 1 / (1 - share) times those of the target distribution.
SHARE_LIMIT = 0.25
SKIP = "check_gradient=False leaves this check out"


def refusal(rung: int, rungs: int, step: float, share: float) -> str:
    """Why a given step is refused before sampling."""
    return (
        f"step_size{_of(rung, rungs)} must be less than {_rounded(step / share)}, the longest stable step at the "
        f"lowest energy found, got {step:.3g}: no chain can stay there, and every move is accepted. For variances "
        f"within 10%, take at most {_rounded(0.1 * step / share)}, or leave step_size out. {SKIP}"
    )


def stability_warnings(where: str, found: StepStability) -> list[str]:
    """Warnings about the steps of the rung named ``where``; an empty list if they are stable."""
    share, drift, longest = found["share"], found["drift"], found["longest"]
    if share <= SHARE_LIMIT and drift <= DRIFT_LIMIT:
        return []
    advice = "Reduce step_size"
    if longest is not None and share > SHARE_LIMIT:
        advice = f"Take step_size at most {_rounded(0.1 * longest)} for variances within 10%"
    if drift > DRIFT_LIMIT:
        return [
            coded(
                "IV-STEP",
                f"{where}: the drift of a step is {drift**0.5:.2g} times its noise, where a stable chain has less than "
                f"1. Steps are too long for the gradients at the draws, or the chains are still far from the mass. Do "
                f"not use these draws. {advice}, or raise warmup.",
            )
        ]
    wide = f"{1.0 / (1.0 - share):.2g} times as large as they should be" if share < 1.0 else "without meaning"
    return [
        coded(
            "IV-STEP",
            f"{where}: the step size is {share:.2g} of the longest stable one ({longest:.3g}) by the curvature at the "
            f"last draws, so variances along the stiffest direction are about {wide}. {advice}.",
        )
    ]


def _of(rung: int, rungs: int) -> str:
    return "" if rungs == 1 else f" of rung {rung}"


def _rounded(value: float) -> str:
    return f"{value:.2g}"
