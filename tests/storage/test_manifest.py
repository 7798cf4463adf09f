from __future__ import annotations

import json

import numpy as np
import pytest

import invsamp as iv
from invsamp.storage import manifest


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
        (posterior(prior=iv.Prior(a=iv.Normal(0, 2, shape=2))), iv.mala(), "prior was Prior"),
        (posterior(prior=iv.Prior(b=iv.Normal(0, 1, shape=2))), iv.mala(), "parameters.a was [2], is None"),
        (posterior(domain=iv.Box(-1.0, 1.0)), iv.mala(), "domain was"),
        (posterior(forward=other_name), iv.mala(), "forward.model was"),
        (posterior(), iv.sgld(), "sampler was"),
        (posterior(), iv.fast_resgld(temperatures=(1.0, 2.0)), "sampler was"),
    ],
)
def test_what_differs_is_named_with_both_values(changed, sampler, named):
    before = manifest.describe(posterior(), iv.mala())
    found = manifest.differences(before, manifest.describe(changed, sampler))
    assert any(line.startswith(named) for line in found), found
    assert all(", is " in line for line in found)


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


def test_a_manifest_comes_back_and_says_what_is_wrong_with_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="the folder does not exist"):
        manifest.read_manifest(tmp_path / "no")
    with pytest.raises(FileNotFoundError, match=r"no run at .*: it has no manifest\.json"):
        manifest.read_manifest(tmp_path)
    manifest.write_manifest(tmp_path, {"plan": {"seed": 2**127, "x": 0.1}})
    assert manifest.read_manifest(tmp_path)["plan"] == {"seed": 2**127, "x": 0.1}
    path = tmp_path / "manifest.json"
    text = path.read_text()
    path.write_text(text.replace('"format_version": 1', '"format_version": 9'))
    with pytest.raises(ValueError, match="newer invsamp, in format 9"):
        manifest.read_manifest(tmp_path)
    for broken in (text[:-10], "", "[]", '{"format": "something else"}'):
        path.write_text(broken)
        with pytest.raises(ValueError, match=r"manifest\.json is damaged"):
            manifest.read_manifest(tmp_path)
