"""Arguments and models that are not the same on all processes are refused, on every one of them."""

from __future__ import annotations

import re

import launch
import numpy as np
import pytest
import threads

import invsamp as iv
from invsamp.parallel import consistency_check


def square(scale):
    return iv.with_jacobian(lambda theta: scale * theta, lambda theta: scale * np.ones((len(theta), 1, 1)))


def message(comm, sampler=None, data=1.0, scale=1.0, **settings):
    """What `sample` says."""
    posterior = iv.Posterior(iv.Prior(x=iv.Normal(0, 1)), {"fine": square(scale)}, [data], iv.GaussianNoise(0.5))
    settings = {"draws": 5, "warmup": 0, "chains": 2, "seed": 1, "start": [0.5], "progress": False} | settings
    try:
        iv.sample(posterior, sampler or iv.mala(0.5, preconditioner=None), comm=comm, **settings)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.filterwarnings("ignore:(R-hat|ess_|effective|all |5 draws)")
@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("seed", (1, 2), "seed was 1, is 2"),
        ("seed", (None, 2), "seed was .*the system.*, is 2"),
        ("draws", (5, 6), "draws was 5, is 6"),
        ("start", ([0.5], [0.6]), r"start was \[\[0.5\], \[0.5\]\], is \[\[0.6\], \[0.6\]\]"),
        ("data", (1.0, 1.1), r"data was .*of shape \(1,\) and digest \w{12}.*, is .* and digest"),
        ("sampler", (iv.mala(0.5, preconditioner=None), iv.mala(0.4, preconditioner=None)), "sampler.* was .*, is "),
        ("scale", (1.0, 1.1), "the energy of fidelity 'fine' was .*, is "),
    ],
)
def test_what_differs_is_refused_everywhere(name, values, said):
    found = threads.run(3, lambda comm: message(comm, **{name: values[comm.rank // 2]}))
    assert len(set(found)) == 1
    assert re.search(f"must be the same on all processes; from rank 0 to rank 2: {said}", found[0])


@pytest.mark.filterwarnings("ignore")
def test_what_is_the_same_passes():
    assert threads.run(2, lambda comm: message(comm, seed=None)) == [None, None]


def test_solves_that_fail_on_one_process_do_not_differ():
    def work(comm):
        value = np.nan if comm.rank else 1.0
        potential = iv.extending.FunctionPotential(lambda x: (np.full(len(x), value), x), 1)
        return consistency_check.unequal_energies(comm, {"fine": potential}, np.zeros(1))

    assert threads.run(2, work) == [None, None]


def test_who_waits_for_ever_says_so(monkeypatch, capsys):
    """A script in which only one process samples."""
    monkeypatch.setattr(consistency_check, "NOTICE", 0.0)
    messages = []

    def seen():
        messages.append(capsys.readouterr().err)
        return "rank 0 of 2 waits for the others: all of them have to sample together" in "".join(messages)

    def work(comm):
        if comm.rank == 1:
            launch.wait_for(seen)
        consistency_check.check_equal(comm, {})

    assert threads.run(2, work) == [None, None]
