"""Codes of warnings: what each means, why it comes, and what to do.

A message begins with its code, so that the standard filter finds it:
``warnings.filterwarnings("ignore", message="IV-SD")``.
"""

from __future__ import annotations

import re
import textwrap
from typing import NamedTuple


class InvsampWarning(UserWarning):
    """A reason not to trust a result. The message begins with a code where it is about a run.

    Examples
    --------
    >>> import warnings
    >>> import invsamp as iv
    >>> with warnings.catch_warnings():
    ...     warnings.filterwarnings("ignore", message="IV-SD")  # those of one code
    ...     warnings.filterwarnings("error", category=iv.diagnostics.InvsampWarning)  # all others
    """


class Entry(NamedTuple):
    """Title, cause and remedy of a warning code."""

    title: str
    cause: str
    remedy: str


_CODE = re.compile(r"IV-[A-Z-]+(?=: )")

CODES: dict[str, Entry] = {
    # convergence
    "IV-RHAT": Entry(
        "Chains do not agree",
        "R-hat compares the spread between and within chains; it is above 1.01. Chains drift, sit in separate modes, "
        "or are stuck in a hierarchical model's funnel.",
        "Look at run.plot_trace(). For drift, raise warmup and draws. For modes, use a temperature ladder. In a "
        "hierarchical model, let the run choose between centered and non-centered forms.",
    ),
    "IV-ESS": Entry(
        "Too few effective draws",
        "Draws are correlated. As many independent draws as the effective sample size would give the same error: "
        "ess_bulk for means, ess_tail for the 5% and 95% quantiles.",
        "Ask for as many draws as the message says. In a hierarchical model, compare centered=True with "
        "centered=False. Otherwise reparametrize, or raise warmup.",
    ),
    "IV-SD": Entry(
        "Standard deviations have large errors",
        "A few distant draws dominate the variance. Means and quantiles of these parameters have converged; others "
        "have warnings of their own.",
        "Report quantiles, or ask for as many draws as the message says.",
    ),
    "IV-TAIL": Entry(
        "Heavy tails",
        "The density falls as a power of the distance, with an index below 4. So the error of a standard deviation "
        "is infinite, and effective sample sizes predict nothing.",
        "Report medians and quantiles, or give the parameter a prior with lighter tails.",
    ),
    "IV-NO-VARIANCE": Entry(
        "The variance does not exist",
        "The tail index is below 2, so the variance is infinite. Mean and standard deviation are meaningless.",
        "Report medians and quantiles, or give the parameter a prior with lighter tails.",
    ),
    "IV-CHAINS": Entry(
        "R-hat needs several chains",
        "There is one chain, or one ensemble of dependent chains.",
        "Run at least four chains, or several ensembles.",
    ),
    "IV-DRAWS": Entry(
        "Too few draws for diagnostics",
        "There are fewer than four draws per chain.",
        "Ask for more draws.",
    ),
    "IV-PILOT": Entry(
        "Fewer effective draws than the pilot run promised",
        "Chains mix more slowly in a ridge, a funnel or a tail that the pilot run did not visit.",
        "Ask for more draws, try longer paths, or reparametrize.",
    ),
    # draws and weights
    "IV-NAN": Entry(
        "Draws are NaN or infinite",
        "Steps were too long, or nothing bounds the parameter.",
        "Reduce step_size, or bound the parameter by its prior or a domain.",
    ),
    "IV-STUCK": Entry(
        "A parameter never moved",
        "Every move was rejected, or no starting point has a finite energy.",
        "Reduce step_size, or check the starting points.",
    ),
    "IV-WEIGHTS": Entry(
        "A few weights dominate",
        "The sampled distribution is far from the intended one.",
        "Sample a closer distribution, or ask for more draws.",
    ),
    "IV-WEIGHT-NAN": Entry(
        "Weights are not finite",
        "A log weight is NaN or +inf, or all are -inf.",
        "Check the densities from which log_weight was computed.",
    ),
    "IV-MEMORY": Entry(
        "Not all parameters are kept",
        "All draws of a large field would exceed the memory. The run keeps means and standard deviations of all "
        "draws (run.moments), every k-th draw in single precision (run.thinned), and all draws of some entries.",
        "Record functions of the field (record=), or write more draws to disk (directory=).",
    ),
    # how a run ended
    "IV-STOPPED": Entry(
        "The run ended early",
        "A signal, an error or a full disk ended it. The draws so far are kept.",
        "Remove the cause. A run in a directory continues with iv.resume.",
    ),
    "IV-UNFINISHED": Entry(
        "The run is not finished",
        "It is still running, or was killed, before all planned draws.",
        "Wait, or continue it with iv.resume.",
    ),
    "IV-BUDGET": Entry(
        "The limit on evaluations was reached, or will be",
        "The limit is evaluations= or the default; warm-up ends at three quarters of it. After a shortened warm-up, "
        "step size and metric are not adapted.",
        "Raise evaluations=, or reparametrize to a less narrow or curved posterior.",
    ),
    "IV-INCOMPLETE": Entry(
        "A part of the result could not be made",
        "A function of the posterior or a part of the sampler failed after the last step. The draws are complete.",
        "Correct the function, and read the draws from the run.",
    ),
    "IV-LOST": Entry(
        "A file of the run is damaged",
        "A file in the directory of the run is missing, truncated or changed. Its contents are left out.",
        "Restore the file from a copy, or sample again.",
    ),
    "IV-RESUMED": Entry(
        "A resumed run may differ in the last digits",
        "The processor, or versions of libraries, have changed since the run began.",
        "Nothing, unless you need the same bits: then resume with the same versions.",
    ),
    # modes
    "IV-START": Entry(
        "No search for modes",
        "All chains began at one point. R-hat cannot detect a mode that no chain visited.",
        "Start at draws of the prior (leave start= out), or in all modes: start=iv.maximize(posterior).",
    ),
    "IV-FUNNEL": Entry(
        "The mode has almost no mass",
        "The density is highest in a narrow region, such as the neck of a hierarchical model's funnel, which chains "
        "may never leave or enter.",
        "Leave centered= out: the run then chooses. If it has chosen, compare quantiles with a run in the other "
        "form. A density without a Prior needs the change of variables by hand. A prior that keeps a scale from 0 "
        "removes the neck.",
    ),
    "IV-DIVERGED": Entry(
        "Optimizations diverged",
        "The density grows without bound: the posterior is improper, or a scale parameter tends to 0 together with "
        "what it scales.",
        "Give the parameter a proper prior. Keep a scale from 0 by its prior, or leave out centered= of what it "
        "scales.",
    ),
    "IV-UNSEEN": Entry(
        "There may be modes that were not found",
        "Many optimizations ended in a minimum of their own. By Good and Turing, their share estimates the "
        "probability that the next start finds a new one.",
        "Search with more starts: iv.maximize(posterior, starts=...).",
    ),
    "IV-SCALE": Entry(
        "The region of the mode search was guessed",
        "A Target has no prior that says where its mass may lie.",
        "Give the Target start= that covers the region, or pose a Posterior with a prior.",
    ),
    "IV-MODE": Entry(
        "A mode was not visited",
        "Optimizations found a mode of relevant weight that holds no draw.",
        "Sample with a temperature ladder, or start chains in all modes.",
    ),
    "IV-MODE-WEIGHT": Entry(
        "Modes are visited with other weights than expected",
        "Chains hardly pass between modes, or modes are so far from Gaussian that the estimated weight is off.",
        "Compare with more draws of a temperature ladder.",
    ),
    # model and data
    "IV-MISFIT": Entry(
        "The model does not fit the data",
        "The misfit is larger than for 999 of 1,000 right models. The noise is larger than stated, the model is "
        "wrong, or the prior excludes the right parameters.",
        "Look at run.plot_predictive(). Leave the noise's scale unknown, as a parameter.",
    ),
    "IV-OVERFIT": Entry(
        "The model fits the data too well",
        "The misfit is smaller than the stated noise allows. The noise is smaller than stated, or the data are "
        "smoothed, or made without noise.",
        "Correct the noise's scale, or leave it unknown.",
    ),
    "IV-GRADIENT": Entry(
        "A gradient is not that of its energy",
        "Differences of the energy contradict the gradient: the model's derivatives are wrong or approximate.",
        "See posterior.check_gradient(). State a deliberate approximation as derivative_error of the model.",
    ),
    "IV-REPEAT": Entry(
        "Energies are not reproducible",
        "The same parameters gave another energy in another call or batch: the model draws random numbers, keeps "
        "state, or depends on other rows.",
        "Make the model a function of its parameters, or sample with a method for noisy energies.",
    ),
    "IV-FAILED": Entry(
        "Many solves fail",
        "More than 5% of the solves fail. The posterior is cut off there.",
        "Narrow the prior or the domain to where the model works, or make the solver more robust.",
    ),
    "IV-TARGET": Entry(
        "Draws are not those of the posterior",
        "The sampler targets another temperature, or cools the target while it draws.",
        "Use a sampler of the posterior, or report the draws as those of the other distribution.",
    ),
    # ladders, exchange and fidelities
    "IV-SWAP": Entry(
        "Neighboring temperatures hardly swap",
        "Energies hardly overlap, no swap was attempted, or noisy energies reject almost all.",
        "Add a temperature between them, or lower the noise of the energies.",
    ),
    "IV-SWAP-BIAS": Entry(
        "Swaps bias the draws",
        "The swap rule or scheme takes noisy energies for exact, or depends on the state.",
        "Use the rule or scheme that the message names.",
    ),
    "IV-ROUND-TRIPS": Entry(
        "No replica crossed the ladder",
        "Swaps are accepted, but no replica went from one end of the ladder to the other and back.",
        "Raise draws or the swap fraction, or use fewer temperatures.",
    ),
    "IV-LADDER": Entry(
        "The temperature ladder did not converge",
        "Warm-up found no spacing at which neighbors swap, or the ladder still changed.",
        "Raise warmup or max_rungs.",
    ),
    "IV-CONTOUR": Entry(
        "A contour target is not flat",
        "Energy bins were visited unevenly, or chains hardly crossed them.",
        "Raise warmup or draws, or take knots over a smaller range.",
    ),
    "IV-COARSE": Entry(
        "The coarse model does not cover the posterior",
        "Where the fine model has posterior mass, the coarse one fails or is far off. Draws come slowly from there.",
        "Correct the coarse model there, make it more robust, or sample the fine model by itself.",
    ),
    "IV-COST": Entry(
        "The coarse model is not cheap",
        "By the clock, coarse and fine solves take about as long.",
        "State costs, Posterior(..., costs={...}), or sample the fine model by itself.",
    ),
    # steps
    "IV-STEP": Entry(
        "Steps are too long",
        "A kernel without acceptance step has a step size near its stability limit: draws are too wide.",
        "Reduce step_size to the value in the message, leave it out, or raise warmup.",
    ),
    "IV-STATIONARY": Entry(
        "Chains were not stationary when warm-up ended",
        "Steps were too long, or chains had not arrived where the mass is.",
        "Raise warmup, reduce step_size, or start at iv.maximize(posterior).",
    ),
    "IV-COORDINATES": Entry(
        "The transport map does not fit",
        "At some draws the target is far from normal in the map's coordinates. Chains turn back there and may miss "
        "regions, unseen by R-hat.",
        "Reparametrize, or compare with preconditioner='dense'.",
    ),
    "IV-GRADIENT-NOISE": Entry(
        "Gradient noise exceeds the injected noise",
        "The noise of minibatch gradients exceeds the injected noise of a step and cannot be subtracted, so draws "
        "are too wide.",
        "Reduce step_size, or take larger minibatches.",
    ),
    "IV-VARIANCE-MODEL": Entry(
        "The noise variance was extrapolated",
        "Many visited states are far from all pilot states of the variance model.",
        "Raise warmup, or allow more states in kernel_ridge.",
    ),
    "IV-PATHS": Entry(
        "Paths diverge",
        "More than 2% of the Hamiltonian or microcanonical paths have an energy error above 1000, apart from failed "
        "solves and bounds. Steps are too long where the density is steep, so chains may not enter that region.",
        "Reduce step_size, or reparametrize: non-centered, or the logarithm of a scale.",
    ),
    "IV-REFLECTION": Entry(
        "Reflected moves fail",
        "Steps are so long, relative to the narrowest part of the domain, that no reflected path ends inside.",
        "Reduce step_size.",
    ),
    "IV-BOUNDARY": Entry(
        "The boundary is not respected",
        "The boundary condition lets draws leave the domain, or piles them up at its boundary.",
        "Use boundary='reflect'.",
    ),
    # emulation
    "IV-EMULATION": Entry(
        "The emulator is not accurate enough",
        "The budget of simulations was spent before the stopping rule was met, or errors are larger than predicted.",
        "Allow more simulations, and check the draws with run.certify().",
    ),
    "IV-EMULATION-MODES": Entry(
        "The mode search with the simulator is not conclusive",
        "Modes were found once, many optimizations reached no minimum, or no minimum fits the data.",
        "Raise descents= and simulations=.",
    ),
    "IV-SIMULATOR": Entry(
        "The simulator fails or is noisy",
        "Simulations at posterior draws failed, or a repeated one gave another output.",
        "Check with run.certify(), and make the simulator more robust.",
    ),
}


def coded(code: str, message: str) -> str:
    """The message with its code before it."""
    if code not in CODES:
        raise KeyError(code)
    return f"{code}: {message}"


def code_of(message: str) -> str | None:
    """The code that a message begins with."""
    found = _CODE.match(message)
    return found.group() if found else None


def explain(code: str) -> str:
    """Title, cause and remedy of a warning, by its code.

    Parameters
    ----------
    code : str
        As messages begin, such as "IV-RHAT".

    Raises
    ------
    ValueError
        If there is no such code.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.diagnostics.explain("IV-SD"))
    IV-SD: Standard deviations have large errors
    Cause: A few distant draws dominate the variance. Means and quantiles of these parameters have converged;
      others have warnings of their own.
    Remedy: Report quantiles, or ask for as many draws as the message says.
    """
    if code not in CODES:
        raise ValueError(f"code must be one of {', '.join(CODES)}, got {code!r}")
    entry = CODES[code]
    lines = [f"{code}: {entry.title}", f"Cause: {entry.cause}", f"Remedy: {entry.remedy}"]
    return "\n".join(textwrap.fill(line, 110, subsequent_indent="  ") for line in lines)
