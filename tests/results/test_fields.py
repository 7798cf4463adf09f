"""Unknown fields of a run on a mesh: arrays, maps, files."""

from __future__ import annotations

from pathlib import Path

import meshio
import numpy as np
import pytest

import invsamp as iv
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


def test_fields_per_region_are_asked_for_on_cells(run: iv.Run) -> None:
    square = unit_square(2)
    mesh = Mesh(square.points, square.cells, regions={"left": np.flatnonzero(square.midpoints[:, 0] < 0.5)})
    field = PerRegion({"left": "c"}, elsewhere=2.0)
    found = run.field(field, mesh, on="cells").mean
    left = mesh.midpoints[:, 0] < 0.5
    np.testing.assert_allclose(found[left], run.draws("c").mean())
    assert (found[~left] == 2.0).all()
    with pytest.raises(ValueError, match="known by name to cells alone"):
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
def test_what_does_not_fit_is_told(run: iv.Run, changes: dict, message: str) -> None:
    given = {"field": FIELD, "mesh": unit_square(2)} | changes
    with pytest.raises(ValueError, match=message):
        run.field(given.pop("field"), given.pop("mesh"), **given)


def test_what_cannot_be_written_is_told(run: iv.Run, tmp_path: Path) -> None:
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
