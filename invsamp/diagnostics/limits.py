"""Limits beyond which a run warns, each with its reason."""

from invsamp.modes.tolerances import NEGLIGIBLE

#: Largest R-hat that passes (Vehtari et al. 2021, section 4).
R_HAT_LIMIT = 1.01
#: R-hat below which chains agree as far as a rough answer goes (Gelman et al. 2013, "Bayesian Data Analysis", section
#: 11.4). Above it the draws give no rates, tails or errors.
APART_LIMIT = 1.1
#: Effective draws of bulk and tail per chain, for up to four chains (Vehtari et al. 2021, section 4: 400 in all).
ESS_PER_CHAIN = 100.0
#: Monte Carlo error of a mean of so many draws, in sds: what concerns a smaller share of the draws is not seen in it.
ERROR = (4.0 * ESS_PER_CHAIN) ** -0.5
#: Fewer draws per chain give no statistics in ArviZ.
MIN_DRAWS = 4
#: Tail index (the order up to which moments exist) below which the error of a variance is not finite; and the standard
#: errors by which its shape has to be beyond that (one-sided 95%), where no other sign of heavy tails is there.
TAIL_INDEX_LIMIT, TAIL_DOUBT = 4.0, 1.645
#: Tail index below which there is no variance; and the probability that any parameter is wrongly said to have none.
VARIANCE_INDEX, VARIANCE_RISK = 2.0, 0.05
#: Share of the draws that weights have to leave, where there are too few draws anyway.
WEIGHTS_LEFT = 0.5
#: A pilot run's effective draws per step over those of the run. The pilot run is short: over 20 seeds each, the ratio
#: was at most 3 on ten posteriors without slow regions (eight schools, GARCH). It was 4 to 16 at 7 of 8 seeds of a
#: Michaelis-Menten model, and 5 to 13 at 3 of 12 on a bent ridge.
PROMISE_LIMIT = 4.0
#: Weight by Laplace of a mode from which on draws have to visit it; and the factor by which their share may differ.
#: Lighter modes change no quantile that is reported; Laplace's weights are often off by a few times.
MODE_WEIGHT_LIMIT, MODE_SHARE_LIMIT = NEGLIGIBLE, 10.0
#: Share of accepted swaps below which a pair of rungs hardly exchanges states.
SWAP_RATE_LIMIT = 0.02
#: Sd of the noise in the log swap ratio above which fewer than 13% of the swaps between equals are accepted.
SWAP_NOISE_LIMIT = 3.0
#: Effective draws per step below which a sampler costs too much: at this rate 2,000 draws of four chains have twice the
#: 400 effective draws below which a run warns.
LEAST_ESS_PER_DRAW = 0.1
#: Acceptance of exchanges with a coarse model of the same target, of the worst chain, below which the same holds.
CHAIN_LIMIT = LEAST_ESS_PER_DRAW
#: Cost ratio of fine to coarse solves below which there is nothing to save, and the seconds of coarse solves together
#: from which on a clock is reliable.
EXPENSIVE, SOME_SECONDS = 2.0, 5.0
#: Share of swaps that neighbors of a ladder found in warm-up may reject, likewise; there it aims at about a half.
REJECTION_LIMIT = 1.0 - LEAST_ESS_PER_DRAW
#: Share by which its communication barrier may change in the last round of warm-up.
MOVED_LIMIT = ERROR
#: Visits of a contour target's bins, least over most, each over what it should be, below which it is not flat.
EVEN_BINS_LIMIT = 0.05
#: Round trips from low energies to high ones and back that a contour target needs, over all chains: a share of one half
#: has an error of .16 then.
ENERGY_TRIPS_LIMIT = 10
#: Share of steps whose gradient noise may exceed the injected noise; and the share above which warm-up ends a run.
CLIPPED_NOISE_LIMIT, CLIPPED_NOISE_REFUSED = 0.01, 0.1
#: Share of the visited states that the pilot of a variance model may leave out.
UNCOVERED_LIMIT = ERROR
#: Virial of an unadjusted kernel's chains over that of any stationary distribution, and share of chains with far higher
#: energies than the others (most): gradients give no curvature there (`invsamp.engine.adaptation.metric_estimation`).
VIRIAL_LIMIT, STRAY_LIMIT = 3.0, 0.5
#: Share of the solves of one fidelity that may fail.
FAILED_SOLVES_LIMIT = ERROR
#: Fisher divergence J above which linear coordinates are a likely cause of chains that do not agree. Where they suit a
#: posterior it was at most 0.4 (GARCH, Student's t with five degrees of freedom), of bent ridges and funnels 0.9 and
#: more. It is no fault by itself: on rings chains agree at 2 to 3, and are right.
DIVERGENCE_LIMIT = 0.5
#: Share of the draws at which a transport map does not fit. It was 0 in right runs, and 0.003 to 0.09 in those whose
#: sds were 0.4 to 0.8 of the right ones, at R-hats of 1.001 to 1.012: where a map bends otherwise than the target does,
#: chains turn back, all of them alike.
UNFIT_LIMIT = 0.001
#: J up to which a neck is no reason to warn, if the map fits there as well: that of most posteriors.
NORMAL_DIVERGENCE = 0.1
#: Share of the mass that may lie where a map does not fit. Where 1% was missed far out, the sd of a log scale was .84
#: and .88 of the right one.
UNMATCHED_LIMIT = 0.003
#: Share of paths that may diverge. A refused path is no error, but many of them show that steps are too long to enter a
#: region. In right runs it was 0 (eight schools), 0.4% (Rosenbrock's ridge by HMC) and 0.9% (a field from data of 1%).
DIVERGING_LIMIT = 0.02
#: Share of steps that may find no reflected path back into the domain: each biases the draws a little.
REFLECTION_FALLBACK_LIMIT = 1e-4


def ess_wanted(chains: int) -> float:
    """Effective draws below which a run of so many chains warns."""
    # many short chains are a run too: what means need does not grow with their number
    return ESS_PER_CHAIN * min(chains, 4)
