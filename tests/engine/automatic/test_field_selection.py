"""Where the prior is Gaussian in many unknowns: a kernel about one mode's Gaussian, chosen without a trial."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from field_cases import Bent, bent_field, moments, truth

import invsamp as iv
from invsamp.engine.automatic import field_selection


def sampled(posterior, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return iv.sample(posterior, **({"draws": 40, "seed": 1, "progress": False} | settings))


class Plain:
    """Without a Jacobian."""

    def __call__(self, theta):
        return Bent()(theta)

    def linearize(self, theta):
        return Bent().linearize(theta)


class Square(Bent):
    """Two modes."""

    def __call__(self, theta):
        return np.stack([theta[:, 0] ** 2, theta[:, 1]], axis=1)

    def jacobian(self, theta):
        jacobian = np.zeros((len(theta), 2, theta.shape[1]))
        jacobian[:, 0, 0], jacobian[:, 1, 1] = 2.0 * theta[:, 0], 1.0
        return self(theta), jacobian


def posed(model, d=90, prior=None):
    return iv.Posterior(prior or iv.Prior(x=iv.Normal(0.0, np.ones(d))), model, [0.8, 0.4], iv.GaussianNoise(0.3))


class TestWhatIsChosen:
    def test_a_kernel_about_the_mode(self, agrees):
        run = sampled(bent_field(), chains=128, draws=40)
        assert run.report["kernels"] == ["infinity_hmc"]
        (decision,) = run.report["decisions"]
        assert "found one mode of a Gaussian prior of 90 unknowns, of which the data inform 2" in decision
        assert agrees(moments(run), truth())
        (values,) = run.report["reference_eigenvalues"]
        assert sum(value > 1.0 for value in values) == 2 and values == sorted(values, reverse=True)
        axes = run.plot_informed_directions().axes[0]
        assert axes.get_title(loc="left").startswith("2 directions")
        np.testing.assert_allclose(axes.collections[0].get_offsets()[:, 1], values)

    @pytest.mark.parametrize("d", [90, 2000])
    def test_warm_up_does_not_grow_with_the_number_of_unknowns(self, d):
        run = sampled(bent_field(d), draws=10)
        spent = run.report["spent"]
        assert spent["descents"] + spent["warm-up"] <= 1000 and not spent["failed"]
        assert run.report["acceptance"][0] > 0.5

    def test_velocities_are_kept_where_the_posterior_is_wide(self, agrees, monkeypatch):
        assert "friction" not in sampled(bent_field(), draws=2).report["decisions"][0]
        monkeypatch.setattr(field_selection, "WIDE", 1.0)
        run = sampled(bent_field(), chains=128, draws=40)
        assert "mean angle of a path 1.6, friction 0.1" in run.report["decisions"][0]
        assert agrees(moments(run), truth())

    def test_without_tangents_it_says_what_that_costs(self):
        run = sampled(posed(Plain()), draws=10)
        assert run.report["kernels"] == ["infinity_hmc"]
        assert "as the model has no tangents: two gradients for each product" in run.report["decisions"][0]

    def test_given_starts_are_kept(self):
        run = sampled(bent_field(), draws=4, start=np.full(90, 0.1))
        assert run.report["kernels"] == ["infinity_hmc"]
        assert not any("began at one point" in line for line in run.warnings())

    @pytest.mark.parametrize(
        ("posterior", "why"),
        [
            (posed(Square()), "the general search follows"),
            (posed(Bent(), d=40), None),
            (posed(Bent(), prior=iv.Prior(x=iv.Uniform(-3.0, 3.0, shape=90))), None),
            (posed(Bent(), prior=iv.Prior(x=iv.Normal(0.0, np.ones(90)))), "directions informed"),
        ],
        ids=["two modes", "few unknowns", "another prior", "all informed"],
    )
    def test_others_are_searched_as_before(self, posterior, why, monkeypatch):
        if why == "directions informed":
            monkeypatch.setattr(field_selection, "SHARE", 0.02)
        run = sampled(posterior, draws=10, warmup=100)
        assert run.report["kernels"][0] != "infinity_hmc"
        assert (why in run.report["decisions"][0]) if why else not any("general" in d for d in run.report["decisions"])


class TestInformedCoefficients:
    """Of many unknowns those of the informed directions are recorded and judged."""

    def test_they_are_those_of_the_draws(self):
        run = sampled(bent_field(2100), draws=12, chains=3)
        found = run.draws("informed")
        assert found.shape == (3, 12, 2)  # the data inform two directions
        # of the first two unknowns alone, whitened and turned
        reference = run.report["reference_eigenvalues"][0]
        assert len(reference) == 2 and np.isfinite(found).all()
        alone = run.theta[:, :, :2].reshape(-1, 2)
        shift = np.linalg.lstsq(np.c_[alone, np.ones(len(alone))], found.reshape(-1, 2), rcond=None)
        assert len(shift[1]) == 2 and shift[1].max() < 1e-20
        assert "informed[0]" in run._summary.table(few=True).index

    def test_they_continue_after_a_resume(self, tmp_path):
        whole = sampled(bent_field(2100), draws=8).draws("informed")
        sampled(bent_field(2100), draws=4, directory=tmp_path / "run", segment=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            more = iv.resume(tmp_path / "run", bent_field(2100), draws=8, progress=False)
        np.testing.assert_array_equal(more.draws("informed"), whole)

    def test_few_unknowns_are_judged_themselves(self):
        assert "informed" not in sampled(bent_field(), draws=4).recorded


def test_other_kernels_have_no_such_directions():
    run = sampled(posed(Bent(), d=40), draws=4, warmup=100)
    with pytest.raises(ValueError, match="run must be that of a kernel with the Gaussian of a mode as its reference"):
        run.plot_informed_directions()


class TestItIsARun:
    @pytest.mark.parametrize("wide", [1.0, 3.0], ids=["velocities kept", "fresh velocities"])
    def test_the_same_draws_in_a_directory_and_resumed(self, tmp_path, monkeypatch, wide):
        monkeypatch.setattr(field_selection, "WIDE", wide)
        alone = sampled(bent_field(), draws=30).theta
        kept = sampled(bent_field(), draws=12, directory=tmp_path / "run", segment=5)
        np.testing.assert_array_equal(kept.theta, alone[:, :12])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            more = iv.resume(tmp_path / "run", bent_field(), draws=30, progress=False)
        np.testing.assert_array_equal(more.theta, alone)

    def test_another_seed_gives_others(self):
        assert not np.array_equal(sampled(bent_field(), draws=4).theta, sampled(bent_field(), draws=4, seed=2).theta)
