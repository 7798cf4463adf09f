"""When an emulation stops.

The rule is stated in advance, and looks at true simulations. Energies of posterior draws that were simulated after the
emulator had predicted them have errors. Their sd over the last two batches has to be at most `HELD_OUT`. Then no
posterior mean moves by more than that many sds, whatever the errors depend on (Cauchy and Schwarz), and in practice by
much less.

There are four more conditions. The emulator's own sd of the misfit is below `PREDICTED`. No error at a point of large
variance within the posterior's mass is larger than `WIDE`. No mean or sd depends by more than `UNKNOWN` on draws whose
energy the emulator does not know. The chains agree, and the posterior has not changed since the round before. Where all
errors are small, `TINY`, one batch is enough.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from invsamp.emulation.rounds import Round

#: Sd of the errors at posterior draws; by the emulator itself; largest error elsewhere within the mass.
HELD_OUT, PREDICTED, WIDE = 0.1, 0.3, 0.5
#: Change of a mean, in sds, or of the log of an sd by draws whose energy the emulator does not know.
UNKNOWN = 0.05
#: What one batch has to stay below to be enough.
TINY = 0.1
#: Changes of means, in sds, and of logs of sds from round to round.
MEANS, SDS = 0.12, 0.1


def held_out(rounds: Sequence[Round], noise: float) -> float:
    """Sd of the errors of the last two rounds, less what the simulator's own noise gives energies (its sd)."""
    errors = np.concatenate([one.errors for one in rounds[-2:]])
    if len(errors) < 3:
        return np.inf
    return float(np.sqrt(max(0.0, errors.var(ddof=1) - noise**2)))


def unmet(rounds: Sequence[Round], noise: float) -> list[str]:
    """Parts of the rule that are not met, in words; empty: stop."""
    if not rounds:
        return ["no round was made"]
    last = rounds[-1]
    sd = held_out(rounds, noise)
    known = last.settled and last.unsure <= UNKNOWN and len(last.errors) > 2
    if known and max(np.abs(last.errors).max(), last.wide, last.predicted) < TINY:
        return []
    found = []
    if len(rounds) < 2:
        found.append("fewer than two batches")
    if not sd <= HELD_OUT:
        found.append(f"the errors of held-out energies have an sd of {sd:.2g}, not at most {HELD_OUT}")
    if last.predicted > PREDICTED:
        found.append(f"the emulator's own sd of the misfit is {last.predicted:.2g}, not at most {PREDICTED}")
    if last.unsure > UNKNOWN:
        found.append(
            f"draws at which the emulator is uncertain change a mean or an sd by {last.unsure:.2g}, not at "
            f"most {UNKNOWN}"
        )
    if last.wide > WIDE + 2.0 * noise:
        found.append(f"an energy within the posterior's mass is off by {last.wide:.2g}, not at most {WIDE}")
    if last.failed:
        found.append(f"{last.failed} of the last posterior draws failed")
    if not last.settled:
        found.append("the chains on the emulator did not agree")
    if len(rounds) > 1:
        before = rounds[-2]
        means = float((np.abs(last.mean - before.mean) / last.sd).max())
        sds = float(np.abs(np.log(last.sd / before.sd)).max())
        if means > MEANS or sds > SDS:
            found.append(f"a mean has moved by {means:.2g} sds, or an sd by {sds:.0%}, in the last round")
    return found
