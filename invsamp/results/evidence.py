"""The evidence from a run, if its ladder gives it, and what to do where it does not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from invsamp.diagnostics.evidence import LogEvidence, log_evidence
from invsamp.diagnostics.report import Report
from invsamp.protocols import Array

#: What helps in most cases.
WHAT_TO_DO = (
    'Sample with parallel_tempering(ladder="auto"), or with tempered_likelihood targets from 1 to 0 as temperatures'
)


def evidence_of(report: Report, misfit: Callable[[int], Array | None]) -> LogEvidence:
    """Evidence of the model that a run sampled.

    Parameters
    ----------
    report : mapping
        The run's.
    misfit : callable
        Those of a rung's draws (chains, draws) by its number; None where they were not kept.

    Raises
    ------
    ValueError
        If its ladder does not give it.
    """
    betas = _betas(report)
    fidelities = list(dict.fromkeys(report.get("fidelities") or []))
    if len(fidelities) > 1:
        raise ValueError(
            f"log_evidence needs rungs of one fidelity, got {fidelities}: the draws of a coarse model give its own "
            f'evidence. Sample with parallel_tempering(ladder="auto", fidelities=[{fidelities[0]!r}])'
        )
    if not all(report.get("exact_energies") or [False]):
        raise ValueError(
            "log_evidence needs exact energies, got draws that hold noisy ones, which bias the mean of "
            "exp(-misfit). Use parallel_tempering, or estimator=exact()"
        )
    found = [misfit(k) for k in range(len(betas))]
    if any(one is None for one in found):
        raise ValueError(f"log_evidence needs the misfits of all rungs, which the run has not stored. {WHAT_TO_DO}")
    return log_evidence(betas, np.stack(found), report.get("ensemble_size", 1))  # type: ignore[arg-type]


def _betas(report: Report) -> list[float]:
    """Of the ladder, from 1 to 0; `ValueError` where it is none of tempered likelihoods."""
    factors = report.get("target_factors")
    got = f"got {', '.join(report.get('targets') or []) or 'a run that does not say what its rungs sample'}"
    betas = [float(pair[1]) for pair in factors or [] if pair is not None and pair[0] == 1.0]
    if not factors or len(betas) < len(factors):
        raise ValueError(f"log_evidence needs a ladder of tempered likelihoods, {got}. {WHAT_TO_DO}")
    if len(betas) < 2 or betas[-1] != 0.0:
        raise ValueError(
            f"log_evidence needs a ladder that ends at the prior, at beta = 0, {got}: no other target is known to be "
            f"normalized. {WHAT_TO_DO}"
        )
    return betas
