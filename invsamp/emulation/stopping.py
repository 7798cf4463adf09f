"""When an emulation stops.

The rule is stated in advance, and looks at true simulations. Energies of the posterior draws that were simulated so far
are predicted by the emulator, each from all other simulations. What their errors change of any posterior mean, in sds,
or of the log of any sd has to be at most `EFFECT`. It is estimated from these draws, with two standard errors added. It
is never more than the sd of the errors, whatever these depend on (Cauchy and Schwarz). This sd is at least the
emulator's own: few draws miss the tails, where errors are large.

There are four more conditions. The emulator's own sd of the misfit is below `PREDICTED`. No energy of the last batch
within the posterior's mass was predicted with an error above `WORST`. No mean or sd depends by more than `UNKNOWN` on
draws whose energy the emulator does not know. The chains agree, and the posterior has not changed since the round
before. Where all errors are small, `TINY`, half as many draws are enough.
"""

from __future__ import annotations

import numpy as np

from invsamp.emulation.rounds import Round

#: Change of a mean, in sds, or of the log of an sd by the errors at posterior draws.
EFFECT = 0.1
#: Sd of the misfit's error by the emulator itself, and largest error of the last batch within the mass.
PREDICTED, WORST = 0.3, 0.5
#: Posterior draws with errors, at least: the sd of eight is known to 25%.
DRAWS = 8
#: Change of a mean, in sds, or of the log of an sd by draws whose energy the emulator does not know.
UNKNOWN = 0.05
#: What all errors have to stay below for half as many draws to be enough.
TINY = 0.1
#: Changes of means, in sds, and of logs of sds from round to round.
MEANS, SDS = 0.12, 0.1


def held_out(last: Round, noise: float) -> float:
    """Sd of errors, less what the simulator's own noise gives energies (its sd)."""
    if len(last.errors) < 3:
        return np.inf
    return float(np.sqrt(max(0.0, _variance(last) - noise**2)))


def effect_of_errors(last: Round, noise: float) -> float:
    """Largest change of a mean, in sds, or of the log of an sd by errors of energies, with two standard errors.

    To first order a mean changes by the covariance of the errors with the parameter.
    """
    sd = max(held_out(last, noise), last.predicted)
    if not np.isfinite(sd):
        return np.inf
    by_moment = np.column_stack([last.simulated, 0.5 * np.square(last.simulated)])
    away = last.errors - np.average(last.errors, weights=last.weights)
    change = float(np.abs(np.average(away[:, None] * by_moment, axis=0, weights=last.weights)).max())
    error = max(np.sqrt(_variance(last)), last.predicted) / np.sqrt(_count(last))
    return min(sd, change + 2.0 * float(error))


def _count(last: Round) -> float:
    """Effective number of simulated posterior draws."""
    return float(last.weights.sum() ** 2 / np.square(last.weights).sum()) if len(last.weights) else 0.0


def _variance(last: Round) -> float:
    """Unbiased variance of the weighted errors."""
    away = last.errors - np.average(last.errors, weights=last.weights)
    biased = float(np.average(np.square(away), weights=last.weights))
    return biased / (1.0 - 1.0 / _count(last)) if _count(last) > 1.0 else np.inf


def unmet(last: Round, noise: float) -> list[str]:
    """Parts of the rule that the last round does not meet, in words; empty: stop."""
    count = _count(last)
    known = last.converged and last.unsure <= UNKNOWN and 2 * count >= DRAWS
    if known and max(np.abs(last.errors).max(), last.worst, last.predicted) < TINY:
        return []
    found = []
    if count < DRAWS:
        found.append(f"the simulated posterior draws count as {count:.2g}, not at least {DRAWS}")
    elif not (effect := effect_of_errors(last, noise)) <= EFFECT:
        found.append(
            f"the errors of held-out energies may change a mean or an sd by {effect:.2g} sds, not at most {EFFECT}"
        )
    if last.predicted > PREDICTED:
        found.append(f"the emulator's own sd of the misfit is {last.predicted:.2g}, not at most {PREDICTED}")
    if last.unsure > UNKNOWN:
        found.append(
            f"draws at which the emulator is uncertain change a mean or an sd by {last.unsure:.2g}, not at "
            f"most {UNKNOWN}"
        )
    if last.worst > WORST + 2.0 * noise:
        found.append(f"an energy within the posterior's mass was off by {last.worst:.2g}, not at most {WORST}")
    if last.failed:
        found.append(f"{last.failed} of the last posterior draws failed")
    if not last.converged:
        found.append("the chains on the emulator did not agree")
    if last.moved > MEANS or last.resized > SDS:
        found.append(f"a mean has moved by {last.moved:.2g} sds, or an sd by {last.resized:.0%}, in the last round")
    return found
