from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import invsamp as iv
from invsamp.storage import manifest
from invsamp.variances.models import Known


def double(theta):
    return 2.0 * theta


def slope(theta):
    return np.broadcast_to(2.0 * np.eye(theta.shape[1]), (len(theta), theta.shape[1], theta.shape[1]))


def posterior(sd=0.5, data=(1.0, -1.0), prior=None, forward=double, **more):
    prior = iv.Prior(a=iv.Normal(0, 1, shape=2)) if prior is None else prior
    return iv.Posterior(prior, iv.with_jacobian(forward, slope), list(data), iv.GaussianNoise(sd), **more)


def test_the_same_problem_made_twice_has_no_differences():
    first = manifest.describe(posterior(), iv.mala())
    assert manifest.differences(first, manifest.describe(posterior(), iv.mala())) == []
    assert manifest.differences(json.loads(json.dumps(first)), manifest.describe(posterior(), iv.mala())) == []


def other_name(theta):
    return 2.0 * theta


@pytest.mark.parametrize(
    ("changed", "sampler", "named"),
    [
        (posterior(sd=0.25), iv.mala(), "noise was GaussianNoise"),
        (posterior(data=(1.0, -1.5)), iv.mala(), "data.sha256 was"),
        (posterior(prior=iv.Prior(a=iv.Normal(0, 2, shape=2))), iv.mala(), "prior.a.sd was 1.0, is 2.0"),
        (
            posterior(prior=iv.Prior(a=iv.Cauchy(0, 1, shape=2))),
            iv.mala(),
            "prior.a was Normal(mean=0.0, sd=1.0, shape=(2,)), is Cauchy(",
        ),
        (posterior(prior=iv.Prior(b=iv.Normal(0, 1, shape=2))), iv.mala(), "parameters.a was [2], is absent"),
        (posterior(domain=iv.Box(-1.0, 1.0)), iv.mala(), "domain was"),
        (posterior(forward=other_name), iv.mala(), "forward.model.function was <function double>, is <function other"),
        (posterior(), iv.samplers.sgld(), "sampler.rungs[0].kernel.adjusted was True, is False"),
        (posterior(), iv.mala(preconditioner="diagonal"), "sampler.preconditioner was 'auto', is 'diagonal'"),
        (
            posterior(),
            iv.samplers.fast_resgld(temperatures=(1.0, 2.0)),
            "sampler.rungs[1] was absent, is Rung(target=Tempered(temp",
        ),
    ],
)
def test_what_differs_is_named_with_both_values(changed, sampler, named):
    before = manifest.describe(posterior(), iv.mala())
    found = manifest.differences(before, manifest.describe(changed, sampler))
    assert any(line.startswith(named) for line in found), found
    assert all(", is " in line for line in found)


def test_only_the_setting_that_differs_is_named():
    def described(temperature):
        sampler = iv.samplers.fast_resgld(temperatures=(1.0, temperature))
        return json.loads(json.dumps(manifest.describe(posterior(), sampler)))

    (line,) = manifest.differences(described(2.0), described(2.5))
    assert line == "sampler.rungs[1].target.temperature was 2.0, is 2.5"


def test_an_entry_of_a_large_array_of_settings_is_seen():
    def described(last):
        values = np.linspace(0.1, 0.2, 2 * manifest.LONGEST)
        values[manifest.LONGEST] = last
        return manifest.describe(posterior(), replace(iv.mala().rungs[0], energy_variance=Known(values)))

    assert manifest.differences(described(0.5), described(0.5)) == []
    (line,) = manifest.differences(described(0.5), described(0.5000001))
    assert line.startswith("sampler.energy_variance.value.sha256 was ")


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ([1.0, 2.0], [1.0, 2.5], "data[1] was 2.0, is 2.5 (1 of 2 entries differs)"),
        ([[1.0, np.nan], [3.0, 4.0]], [[1.0, np.nan], [5.0, np.nan]], "data[1, 0] was 3.0, is 5.0 (2 of 4 entries di"),
        ([1.0, 2.0], [1.0, 2.0, 3.0], "data had shape (2,), has (3,)"),
    ],
)
def test_data_that_differ_are_shown(before, now, said):
    assert manifest.compare_data(np.array(before), np.array(now)).startswith(said)


def test_a_long_value_shows_where_it_differs():
    (line,) = manifest.differences({"k": "a" * 1000 + "b" + "c" * 1000}, {"k": "a" * 1000 + "d" + "c" * 1000})
    assert len(line) < 500 and "ab" in line and "ad" in line


def test_energies_find_another_model_that_prints_the_same():
    def energies(**changed):
        return manifest.energies_at({"model": posterior(**changed).potential()}, np.array([0.3, -0.2]))

    before = energies()
    assert manifest.compare_energies(before, energies()) == []
    (line,) = manifest.compare_energies(before, energies(forward=lambda theta: 2.0 * theta * (1 + 1e-7)))
    assert line.startswith(f"the energy of fidelity 'model' was {before['model']!r}, is ")
    # the last digits of another machine pass
    assert manifest.compare_energies(before, energies(forward=lambda theta: 2.0 * theta * (1 + 1e-12))) == []
    # a solve that failed before and does not now is another model
    failed = energies(forward=lambda theta: theta * np.nan)
    assert failed == {"model": np.inf}
    assert len(manifest.compare_energies(failed, before)) == 1
    assert len(manifest.compare_energies(before, failed)) == 1
    assert manifest.compare_energies(failed, failed) == []


def test_a_manifest_is_for_people(tmp_path):
    manifest.write_manifest(tmp_path, {"plan": {"seed": 2**127, "x": 0.1}, "name": "µ"})
    text = (tmp_path / "manifest.json").read_text()
    assert json.loads(text) == {"format": manifest.FORMAT, "plan": {"seed": 2**127, "x": 0.1}, "name": "µ"}
    assert "µ" in text and len(text.splitlines()) > 3
