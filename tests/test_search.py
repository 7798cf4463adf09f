"""What a newcomer types into the site's search leads to the right page first."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
#: By page, what has to find it: in the words of the field, of other toolkits, and of beginners.
TERMS = {
    "how-to/pose/custom-prior": ["custom prior", "improper prior", "flat prior"],
    "how-to/pose/constraint": ["constraint", "bounds", "inequality"],
    "how-to/pose/hierarchical-model": ["hierarchical model", "multilevel", "random effects"],
    "how-to/pose/population": ["mixed effects", "pharmacokinetics"],
    "how-to/pose/centering": ["centering", "non-centered"],
    "how-to/pose/missing-and-censored-data": ["missing data", "censored data", "detection limit"],
    "how-to/pose/unknown-noise": ["unknown noise", "outliers"],
    "how-to/pose/correlated-noise": ["correlated noise", "autoregressive"],
    "how-to/models/jax": ["JAX"],
    "how-to/models/pymc": ["PyMC"],
    "how-to/models/petab": ["PEtab", "SBML"],
    "how-to/models/black-box-executable": ["black box", "simulator", "executable"],
    "how-to/models/simulators-on-a-cluster": ["cluster", "SLURM"],
    "how-to/models/ode": ["ODE", "differential equation"],
    "how-to/models/gradient-matching": ["SINDy"],
    "how-to/models/pde": ["PDE", "finite elements"],
    "how-to/models/ufl-mpi": ["UFL", "FEniCS"],
    "how-to/models/field-prior": ["random field"],
    "how-to/models/networks": ["neural network", "GPU"],
    "how-to/models/several-fidelities": ["several fidelities", "multifidelity", "surrogate"],
    "how-to/sample/choose-a-sampler": ["derivative-free", "gradient-free", "MCMC"],
    "how-to/sample/emulate": ["emulator", "Gaussian process"],
    "how-to/sample/noisy-models": ["minibatch"],
    "how-to/sample/find-modes": ["MAP estimate", "starting points"],
    "how-to/sample/profile-likelihood": ["profile likelihood", "identifiability"],
    "how-to/sample/calibration": ["simulation-based calibration"],
    "how-to/sample/resume-after-a-kill": ["checkpoint", "kill"],
    "how-to/sample/several-processes": ["MPI", "parallel"],
    "how-to/results/read-print-run": ["credible interval", "burn-in", "effective sample size", "R-hat"],
    "how-to/results/check-the-fit": ["residuals", "goodness of fit"],
    "how-to/results/model-comparison": ["model comparison", "Bayes factor", "evidence", "cross-validation"],
    "how-to/results/predict-at-new-times": ["predictions", "posterior predictive"],
    "how-to/results/quantities-of-interest": ["generated quantities"],
    "how-to/results/weighted-draws": ["importance weights"],
    "how-to/results/export": ["export", "CSV", "netCDF", "ParaView"],
    "explanation/replica-exchange": ["replica exchange", "parallel tempering", "temperature ladder", "multimodal"],
    "explanation/fidelities": ["delayed acceptance"],
    "explanation/reflection": ["reflection"],
    "explanation/transport-maps": ["transport map", "funnel"],
    "reference/warnings": ["warnings"],
    "index": ["uncertainty quantification", "inverse problem"],
}


def entries(page: Path) -> list[str]:
    """What the page puts into the index."""
    found = re.findall(r"```\{index\} (.*)\n```", page.read_text())
    return [entry.strip().lower() for line in found for entry in line.split(",")]


def test_there_are_enough_terms() -> None:
    assert sum(map(len, TERMS.values())) >= 60


@pytest.mark.parametrize("page", TERMS)
def test_the_index_leads_to_one_page(page: str) -> None:
    """An entry of the index that is the query itself has the highest score there is; tests/test_site.py searches."""
    of_all = Counter(entry for path in DOCS.rglob("*.md") if "generated" not in path.parts for entry in entries(path))
    own = entries(DOCS / f"{page}.md")
    for term in TERMS[page]:
        assert term.lower() in own and of_all[term.lower()] == 1, term
