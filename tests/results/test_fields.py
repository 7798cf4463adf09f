"""Unknown fields of a run on a mesh: arrays, maps, files."""

from __future__ import annotations

import warnings
from pathlib import Path

import meshio
import numpy as np
import pytest

import invsamp as iv
from invsamp.engine.driver import running_moments
from invsamp.solvers import fields
from invsamp.solvers.fem.box import box
from invsamp.solvers.fem.fields import Constant, LogField, Modes, PerRegion, Sum
from invsamp.solvers.fem.mesh import Mesh, unit_square

CHAINS, DRAWS = 2, 40
TRUTH = {"z": [0.5, -1.0], "c": 0.3}


def waves(points: np.ndarray) -> np.ndarray:
    return np.stack([np.sin(np.pi * points[:, 0]), points[:, 1]], axis=1)


@pytest.fixture(scope="module")
def run() -> iv.Run:
    theta = np.random.default_rng(1).standard_normal((1, CHAINS, DRAWS, 4))
    return iv.Run.from_arrays(None, {"other": (), "c": (), "z": (2,)}, theta, {}, {})


def by_hand(run: iv.Run, points: np.ndarray) -> np.ndarray:
    return np.exp(run.draws("z") @ waves(points).T + run.draws("c")[..., None])


FIELD = LogField(Sum(Modes("z", waves, count=2), Constant("c")))


@pytest.mark.parametrize("kind", ["triangles", "squares"])
@pytest.mark.parametrize("on", ["nodes", "cells"])
def test_values_are_those_of_the_draws(run: iv.Run, kind: str, on: str) -> None:
    mesh = unit_square(3, kind)
    found = run.field(FIELD, mesh, on=on, truth=TRUTH)
    expected = by_hand(run, mesh.points if on == "nodes" else mesh.midpoints)
    np.testing.assert_allclose(found.values, expected)
    np.testing.assert_allclose(found.mean, expected.mean(axis=(0, 1)))
    np.testing.assert_allclose(found.sd, expected.std(axis=(0, 1)))
    np.testing.assert_allclose(found.quantile(0.9), np.quantile(expected, 0.9, axis=(0, 1)))
    np.testing.assert_allclose(found.exceedance(1.2), (expected > 1.2).mean(axis=(0, 1)))
    points = mesh.points if on == "nodes" else mesh.midpoints
    np.testing.assert_allclose(found.truth, np.exp(waves(points) @ TRUTH["z"] + TRUTH["c"]))
    assert f"2 chains, 40 draws, {len(points)} {on}" in repr(found)


def test_some_draws_and_draws_with_weights() -> None:
    theta = np.array([[[[0.0], [1.0], [2.0], [3.0]]]])
    mesh, field = unit_square(2), Constant("c")
    plain = iv.Run.from_arrays(None, {"c": ()}, theta, {}, {})
    assert plain.field(field, mesh, draws=2).values[0, :, 0].tolist() == [1.0, 3.0]
    heavy = iv.Run.from_arrays(None, {"c": ()}, theta, {}, {}, log_weight=np.log([[1e-300, 1.0, 1.0, 2.0]]))
    assert sorted(heavy.field(field, mesh).values[0, :, 0]) == [1.0, 2.0, 3.0, 3.0]


@pytest.mark.parametrize("suffix", ["vtu", "xdmf"])
@pytest.mark.parametrize("on", ["nodes", "cells"])
def test_files_can_be_opened_again(run: iv.Run, tmp_path: Path, suffix: str, on: str) -> None:
    mesh = unit_square(3, "squares")
    found = run.field(FIELD, mesh, on=on, truth=TRUTH)
    found.write(tmp_path / f"field.{suffix}", level=1.0)
    read = meshio.read(tmp_path / f"field.{suffix}")
    np.testing.assert_allclose(read.points[:, :2], mesh.points)
    np.testing.assert_array_equal(read.cells_dict["quad"], mesh.cells)
    data = read.point_data if on == "nodes" else {name: values[0] for name, values in read.cell_data.items()}
    assert set(data) == {"mean", "sd", "q5", "q50", "q95", "above 1", "truth"}
    np.testing.assert_allclose(data["sd"], found.sd)
    np.testing.assert_allclose(data["above 1"], found.exceedance(1.0))


def test_maps_show_mean_sd_truth_and_probability(run: iv.Run) -> None:
    mesh = unit_square(3, "squares")
    figure = run.plot_field(FIELD, mesh, sensors=[[0.5, 0.5]], truth=TRUTH, level=1.0, label="k")
    maps = [axes for axes in figure.axes if axes.get_title(loc="left")]
    titles = [axes.get_title(loc="left") for axes in maps]
    assert titles == ["k: truth", "k: posterior mean", "k: posterior sd", "probability above 1"]
    found = run.field(FIELD, mesh, truth=TRUTH)
    for axes, values in zip(maps, (found.truth, found.mean, found.sd, found.exceedance(1.0)), strict=True):
        np.testing.assert_allclose(axes.collections[0].get_array(), values)
    limits = [axes.collections[0].get_clim() for axes in maps]
    assert limits[0] == limits[1] and limits[3] == (0.0, 1.0)
    # on cells, each quadrangle is two triangles of one value
    flat = run.plot_field(FIELD, mesh, on="cells").axes[0].collections[0].get_array()
    np.testing.assert_allclose(flat, np.tile(run.field(FIELD, mesh, on="cells").mean, 2))


@pytest.fixture(scope="module", params=["memory", "directory"])
def posed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> iv.Run:
    """A run that has draws of its prior."""
    prior = iv.Prior(z=iv.Normal(0, 1, shape=2), c=iv.Normal(0, 0.5))
    model = iv.with_jacobian(lambda t: t, lambda t: np.broadcast_to(np.eye(3), (len(t), 3, 3)))
    posterior = iv.Posterior(prior, model, np.zeros(3), iv.GaussianNoise(0.1))
    folder = None if request.param == "memory" else tmp_path_factory.mktemp("runs") / "run"
    settings = {"draws": 20, "warmup": 10, "chains": 2, "seed": 1, "progress": False, "directory": folder}
    with pytest.warns(UserWarning):
        return iv.sample(posterior, iv.mala(0.1), **settings)


def test_the_prior_is_shown_beside_it_and_draws(posed: iv.Run) -> None:
    mesh = unit_square(3)
    before = posed.field(FIELD, mesh, of="prior")
    assert (before.sd > 1.5 * posed.field(FIELD, mesh).sd).all()
    figure = posed.plot_field(FIELD, mesh, samples=2, prior=True, truth=TRUTH)
    maps = {axes.get_title(loc="left"): axes for axes in figure.axes if axes.get_title(loc="left")}
    assert list(maps)[2:] == ["field: posterior sd", "field: prior sd", "field: draw 1", "field: draw 2"]
    np.testing.assert_allclose(maps["field: prior sd"].collections[0].get_array(), before.sd)
    limits = [maps[f"field: {name} sd"].collections[0].get_clim() for name in ("prior", "posterior")]
    assert limits[0] == limits[1] == (0.0, before.sd.max())


def test_a_run_without_draws_of_the_prior_says_so(run: iv.Run) -> None:
    with pytest.raises(ValueError, match="of must be 'posterior': the run has no draws of the prior"):
        run.field(FIELD, unit_square(2), of="prior")


def test_on_a_line_it_is_a_curve_and_in_space_a_file(run: iv.Run, tmp_path: Path) -> None:
    field = Modes("z", lambda x: np.stack([x[:, 0], 1.0 + 0.0 * x[:, 0]], axis=1), count=2)
    axes = run.plot_field(field, box(5), truth={"z": [1.0, 0.0]}, samples=1, sensors=[[0.5]]).axes[0]
    curves = {line.get_label(): line.get_ydata() for line in axes.lines}
    np.testing.assert_allclose(curves["posterior mean"], run.field(field, box(5)).mean)
    np.testing.assert_allclose(curves["truth"], np.linspace(0, 1, 6))
    cube = box((2, 2, 2))
    with pytest.raises(ValueError, match="mesh must have one or two dimensions, got 3"):
        run.plot_field(field, cube)
    run.field(field, cube).write(tmp_path / "field.vtu")
    read = meshio.read(tmp_path / "field.vtu")
    np.testing.assert_array_equal(read.cells_dict["tetra"], cube.cells)
    np.testing.assert_allclose(read.point_data["mean"], run.field(field, cube).mean)


def test_fields_per_region_are_asked_for_on_cells(run: iv.Run) -> None:
    square = unit_square(2)
    mesh = Mesh(square.points, square.cells, regions={"left": np.flatnonzero(square.midpoints[:, 0] < 0.5)})
    field = PerRegion({"left": "c"}, elsewhere=2.0)
    found = run.field(field, mesh, on="cells").mean
    left = mesh.midpoints[:, 0] < 0.5
    np.testing.assert_allclose(found[left], run.draws("c").mean())
    assert (found[~left] == 2.0).all()
    with pytest.raises(ValueError, match="which only cells have"):
        run.field(field, mesh)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"field": Constant("k")}, r"field must be of unknowns of the run \(other, c, z\), got 'k'"),
        ({"field": Modes("c", waves, count=2)}, "field has 2 numbers under 'c', the run 1"),
        ({"field": "c"}, "field must be a field, .* got 'c'"),
        ({"mesh": 3}, "mesh must be a mesh, .* got 3"),
        ({"on": "edges"}, "on must be one of 'nodes', 'cells', got 'edges'"),
        ({"draws": 0}, "draws must be"),
        ({"truth": {"z": [1, 2]}}, "truth must have all unknowns of the field, got none for c"),
        ({"truth": {"z": [1, 2, 3], "c": 1}}, r"truth\['z'\] must have shape \(2,\)"),
    ],
)
def test_what_does_not_fit_is_reported(run: iv.Run, changes: dict, message: str) -> None:
    given = {"field": FIELD, "mesh": unit_square(2)} | changes
    with pytest.raises(ValueError, match=message):
        run.field(given.pop("field"), given.pop("mesh"), **given)


def test_what_cannot_be_written_is_reported(run: iv.Run, tmp_path: Path) -> None:
    found = run.field(FIELD, unit_square(2))
    with pytest.raises(ValueError, match=r"path must end as a file of meshes does .*, got '.*field\.png'"):
        found.write(tmp_path / "field.png")
    with pytest.raises(FileNotFoundError, match="path must lie in an existing folder"):
        found.write(tmp_path / "none" / "field.vtu")
    with pytest.raises(ValueError, match="level must be"):
        found.exceedance(np.nan)
    with pytest.raises(ValueError, match="probability must be"):
        found.quantile(1.0)
    with pytest.raises(ValueError, match="sensors must have shape"):
        run.plot_field(FIELD, unit_square(2), sensors=[0.5, 0.5])


class TestMomentsOfNodalFields:
    """Mean and sd of the prior are exact, and those of a run that keeps some draws are over all of them."""

    MESH = unit_square(8)

    @pytest.fixture(scope="class")
    @classmethod
    def nodal(cls) -> iv.Run:
        def model(theta: np.ndarray) -> np.ndarray:
            return theta[:, :2]

        def slopes(theta: np.ndarray) -> np.ndarray:
            return np.broadcast_to(np.eye(2, 82), (len(theta), 2, 82))

        sd = 0.5 + cls.MESH.points[:, 0]
        prior = iv.Prior(u=fields.matern(cls.MESH, 0.4, sd, mean=-0.3), c=iv.Normal(0.0, 1.0))
        posterior = iv.Posterior(prior, iv.with_jacobian(model, slopes), np.zeros(2), iv.GaussianNoise(0.3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return iv.sample(posterior, iv.pcn(0.5), draws=20, warmup=10, chains=2, seed=1, progress=False)

    def test_the_prior_s_are_exact(self, nodal: iv.Run) -> None:
        u, sd = fields.Nodal("u", self.MESH), 0.5 + self.MESH.points[:, 0]
        before = nodal.field(u, self.MESH, of="prior")
        np.testing.assert_array_equal(before.sd, sd)
        np.testing.assert_array_equal(before.mean, -0.3)
        assert 0.0 < np.abs(before.values.std(axis=(0, 1)) / sd - 1.0).max() < 0.2  # the draws' own
        figure = nodal.plot_field(u, self.MESH, prior=True)
        maps = {axes.get_title(loc="left"): axes for axes in figure.axes}
        np.testing.assert_allclose(maps["field: prior sd"].collections[0].get_array(), sd)

    def test_a_link_is_integrated_over(self, nodal: iv.Run) -> None:
        sd = 0.5 + self.MESH.points[:, 0]
        positive = nodal.field(LogField(fields.Nodal("u", self.MESH)), self.MESH, of="prior")
        mean = np.exp(-0.3 + 0.5 * sd**2)
        np.testing.assert_allclose(positive.mean, mean, rtol=1e-9)
        np.testing.assert_allclose(positive.sd, mean * np.sqrt(np.expm1(sd**2)), rtol=1e-6)

    def test_a_field_on_another_mesh_is_refused(self, nodal: iv.Run) -> None:
        other = box((8, 8), upper=2.0)
        with pytest.raises(ValueError, match="field must have 'u' on the mesh of the run's own field, got an"):
            nodal.field(fields.Nodal("u", other), other)

    def test_others_are_those_of_draws(self, nodal: iv.Run) -> None:
        u = fields.Nodal("u", self.MESH)
        own = self.MESH
        for field, mesh, on in ((u, unit_square(4), "nodes"), (u, own, "cells"), (Sum(u, "c"), own, "nodes")):
            found = nodal.field(field, mesh, on=on, of="prior")
            assert found.moments is None
            np.testing.assert_array_equal(found.sd, found.values.std(axis=(0, 1)))
        assert nodal.field(u, self.MESH).moments is None  # of the posterior

    def test_a_field_of_unknown_sd_has_none(self) -> None:
        known, unknown = fields.matern(self.MESH, 0.4), fields.matern(self.MESH, 0.4, "tau")
        prior = iv.Prior(u=unknown, v=known, tau=iv.HalfNormal(1.0))
        density = iv.LogDensity(lambda t: 0.0 * t[:, 0], lambda t: 0.0 * t)
        assert list(iv.Posterior(prior, log_likelihood=density).gaussian_marginals()) == ["v"]

    def test_of_some_draws_the_moments_are_those_of_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        mesh = unit_square(45)
        prior = iv.Prior(u=fields.matern(mesh, 0.4))
        posterior = iv.Posterior(prior, log_likelihood=iv.LogDensity(lambda t: -(t[:, 0] ** 2), _slope))
        settings = {"draws": 40, "warmup": 0, "chains": 2, "seed": 1, "progress": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole = iv.sample(posterior, iv.pcn(0.5), **settings)
            monkeypatch.setattr(running_moments, "MOST_BYTES", 10**5)
            monkeypatch.setattr(running_moments, "THINNED_BYTES", 4 * len(mesh.points) * 2 * 5)
            some = iv.sample(posterior, iv.pcn(0.5), **settings)
        u = fields.Nodal("u", mesh)
        found, right = some.field(u, mesh), whole.field(u, mesh)
        assert found.values.shape == (2, 5, len(mesh.points))
        np.testing.assert_allclose(found.mean, right.mean, atol=1e-12)
        np.testing.assert_allclose(found.sd, right.values.reshape(80, -1).std(axis=0, ddof=1), rtol=1e-9)
        links = some.field(LogField(u), mesh)  # of the draws that there are
        np.testing.assert_allclose(links.values, np.exp(found.values))
        assert links.moments is None
        np.testing.assert_array_equal(some.field(u, mesh, of="prior").sd, 1.0)
        assert some.plot_field(u, mesh, prior=True, samples=2).axes


def _slope(theta: np.ndarray) -> np.ndarray:
    slope = np.zeros_like(theta)
    slope[:, 0] = -2.0 * theta[:, 0]
    return slope
