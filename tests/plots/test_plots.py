from __future__ import annotations

import io
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from invsamp.domains import Box, HalfSpaces, Polygon
from invsamp.plots import plot_ladder, plot_marginals, plot_pairs, plot_predictive, plot_swaps, plot_trace
from invsamp.plots.figure import GRID
from invsamp.results.run import Run

REPORT = {
    "chains": 4,
    "draws": 300,
    "temperatures": [1.0, 2.0, 8.0],
    "fidelities": ["fine", "coarse", "coarse"],
    "swap_attempts": [200, 100],
    "swap_accepts": [50, 1],
    "round_trips": 5,
}


def make(rungs=3, domain=None, report=REPORT, stats=True, shapes=None, draws=300):
    rng = np.random.default_rng(0)
    shapes = {"x": (), "k": (2,)} if shapes is None else shapes
    d = sum(int(np.prod(shape)) for shape in shapes.values())
    theta = rng.uniform(-1, 1, (rungs, 4, draws, d)) * np.arange(1, rungs + 1)[:, None, None, None]
    recorded = {
        "energy": rng.chisquare(3, (rungs, 4, draws)) + np.arange(rungs)[:, None, None],
        "replica": rng.permuted(np.tile(np.arange(rungs)[:, None, None], (1, 4, draws)), axis=0),
    }
    problem = SimpleNamespace(data=np.arange(10.0).reshape(5, 2))
    return Run.from_arrays(problem, shapes, theta, recorded if stats else {}, report, domain)


class Model:
    """Predictions 0, 1, .. 9 whatever theta, with noise of sd 0.1; the first row fails."""

    def __init__(self):
        self.shapes = {"x": (), "k": (2,)}

    def predict(self, theta, fidelity=None):
        mean = np.tile(np.arange(10.0).reshape(5, 2), (len(theta), 1, 1))
        mean[0] = np.nan
        return mean

    def sample_noise(self, rng, y, theta):
        return y + 0.1 * rng.standard_normal(y.shape)


def rendered(figure):
    assert isinstance(figure, Figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=40)
    assert buffer.getvalue()[:4] == b"\x89PNG"
    return [axes for axes in figure.axes if axes.get_visible()]


def texts(axes):
    return [axes.get_title(loc) for loc in ("left", "right")]


def test_trace_has_a_line_per_chain_and_its_diagnostics():
    run = make()
    panels = rendered(plot_trace(run))
    assert len(panels) == 6
    line = panels[0]
    assert len(line.lines) == 4
    np.testing.assert_array_equal(line.lines[2].get_ydata(), run.draws("x")[2])
    assert texts(line) == ["x", f"R-hat {run.summary()['r_hat']['x']:.3f}   ESS {run.summary()['ess_bulk']['x']:.0f}"]
    assert len(rendered(run.plot_trace(["k"]))) == 4


def test_trace_thins_long_chains():
    run = make(rungs=1, draws=9000)
    (line, *_) = rendered(plot_trace(run, ["x"]))
    np.testing.assert_array_equal(line.lines[0].get_ydata(), run.draws("x")[0][::3])


def test_marginals_are_densities_with_the_truth():
    run = make()
    panels = rendered(plot_marginals(run, truth={"x": 0.25, "k[1]": 0.5}))
    assert [texts(axes)[0] for axes in panels] == ["x", "k[0]", "k[1]"]
    heights, edges, _ = panels[0].patches[0].get_data()
    assert np.sum(heights * np.diff(edges)) == pytest.approx(1.0)
    verticals = [[line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "--"] for axes in panels]
    assert verticals == [[0.25], [], [0.5]]
    bar = panels[0].lines[0].get_xdata()
    np.testing.assert_allclose(bar, np.quantile(run.draws("x"), (0.05, 0.95)))


def test_truth_may_be_given_by_parameter_or_entry():
    panels = rendered(make().plot_marginals({"k": [0.1, 0.2]}, names=["k[1]", "k[0]"]))
    assert [texts(axes)[0] for axes in panels] == ["k[1]", "k[0]"]
    assert [axes.lines[-1].get_xdata()[0] for axes in panels] == [0.2, 0.1]


def test_pairs_fill_the_lower_triangle():
    run = make()
    figure = plot_pairs(run, truth={"x": 0.0, "k": [0.0, 0.0]})
    assert len(rendered(figure)) == 6
    assert [axes.get_xlabel() for axes in figure.axes if axes.get_xlabel()] == ["x", "k[0]", "k[1]"]
    # the counts of the 2-D histogram are the draws
    shade = figure.axes[3].collections[0].get_array()
    assert np.sum(np.ma.filled(shade, 0.0) ** 2) == pytest.approx(run.theta.shape[0] * run.theta.shape[1])


def outline(axes):
    """Lines that are closed polygons."""
    return [
        line.get_xydata()
        for line in axes.lines
        if len(line.get_xdata()) > 3 and np.array_equal(line.get_xydata()[0], line.get_xydata()[-1])
    ]


def is_grey(figure, axes, point):
    """Whether the picture drawn last has, at a point of the panel, the color of what lies outside the domain."""
    image = np.asarray(figure.canvas.buffer_rgba())
    x, y = axes.transData.transform(point).astype(int)
    return np.array_equal(image[len(image) - 1 - y, x, :3], np.round(255 * np.array(to_rgb(GRID))).astype(int))


def test_pairs_draw_the_boundary_of_half_spaces_and_grey_what_is_outside():
    triangle = HalfSpaces([[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0]], [1.0, 1.0, 1.5])
    run = make(rungs=1, domain=triangle, shapes={"x": (), "y": ()})
    figure = plot_pairs(run)
    rendered(figure)
    (polygon,) = outline(figure.axes[2])
    expected = {(-1.0, -1.0), (2.5, -1.0), (-1.0, 2.5)}
    assert {tuple(np.round(vertex, 9)) for vertex in polygon} == expected
    figure.canvas.draw()
    for outside in ((-1.05, 0.0), (0.0, -1.05), (0.95, 0.95)):
        assert is_grey(figure, figure.axes[2], outside), outside
    for inside in ((0.0, 0.0), (0.7, 0.7), (-0.95, -0.95)):
        assert not is_grey(figure, figure.axes[2], inside), inside
    for axes in figure.axes[:2]:
        assert not outline(axes)


def test_pairs_draw_holes_and_every_part_of_an_intersection():
    square = Polygon([[-2, -2], [2, -2], [2, 2], [-2, 2]], [[[-0.3, -0.3], [0.3, -0.3], [0.3, 0.3], [-0.3, 0.3]]])
    run = make(rungs=1, domain=square & Box([-np.inf, -np.inf], [1.0, 1.1]), shapes={"x": (), "y": ()})
    figure = plot_pairs(run)
    rendered(figure)
    assert len(outline(figure.axes[2])) == 2
    figure.canvas.draw()
    for outside in ((0.0, 0.0), (0.25, -0.25), (1.03, 0.0), (0.0, 1.13)):
        assert is_grey(figure, figure.axes[2], outside), outside
    for inside in ((0.5, 0.5), (-0.4, 0.0), (0.9, 1.0)):
        assert not is_grey(figure, figure.axes[2], inside), inside
    # the ends of the domain that are near, on the diagonal
    assert [line.get_xdata()[0] for line in figure.axes[0].lines] == [1.0]


def test_pairs_draw_the_nearby_bounds_of_a_box():
    run = make(rungs=1, domain=Box([-1.0, -np.inf, -50.0], [1.1, np.inf, 50.0]))
    figure = plot_pairs(run)
    rendered(figure)
    assert sorted(line.get_xdata()[0] for line in figure.axes[0].lines) == [-1.0, 1.1]
    assert not figure.axes[4].lines  # k[0] has no bound, and that of k[1] is far away
    assert not figure.axes[8].lines
    low, high = figure.axes[0].get_xlim()
    assert low < -1.0
    assert high > 1.1
    assert outline(figure.axes[3])  # x against k[0]


@pytest.mark.parametrize("domain", [None, Box(), Box(0.0, 1.0)])
def test_pairs_without_a_boundary_in_view_have_no_grey(domain):
    rng = np.random.default_rng(1)
    theta = 0.5 + 1e-3 * rng.standard_normal((1, 4, 100, 2))
    figure = plot_pairs(Run.from_arrays(None, {"x": (), "y": ()}, theta, {}, {}, domain))
    rendered(figure)
    (left, right), (low, high) = figure.axes[2].get_xlim(), figure.axes[2].get_ylim()
    figure.canvas.draw()
    for x in np.linspace(left, right, 9)[1:-1]:
        for y in np.linspace(low, high, 9)[1:-1]:
            assert not is_grey(figure, figure.axes[2], (x, y))


def test_swaps_show_rates_and_paths():
    panels = rendered(plot_swaps(make()))
    assert len(panels) == 2
    assert [bar.get_width() for bar in panels[0].patches] == [0.25, 0.01]
    assert [label.get_text() for label in panels[0].get_yticklabels()] == ["1 ↔ 2", "2 ↔ 8"]
    assert "5 round trips" in texts(panels[0])
    run = make()
    image = panels[1].images[0].get_array()
    assert image.shape == (3, 300)
    np.testing.assert_array_equal(image[0], run.data.sample_stats["replica"][0])
    np.testing.assert_array_equal(image[2], run.data.hot_stats["replica"][0, :, 1])
    assert len(rendered(plot_swaps(make(stats=False)))) == 1


def test_swaps_show_the_cold_rung_of_every_chain_where_only_that_was_recorded():
    rng = np.random.default_rng(0)
    stats = {"replica": rng.integers(0, 2, (4, 100))}
    report = {"swap_attempts": [0], "swap_accepts": [0]}
    run = Run.from_arrays(None, {"x": ()}, rng.standard_normal((2, 4, 100, 1)), stats, report)
    panels = rendered(run.plot_swaps())
    assert panels[1].images[0].get_array().shape == (4, 100)
    assert "not tried" in [text.get_text() for text in panels[0].texts]


def test_swaps_of_one_temperature_are_refused():
    with pytest.raises(ValueError, match=r"at least 2 rungs.*got 1 rungs"):
        plot_swaps(make(rungs=1, report={"temperatures": [1.0]}))


def test_ladder_shows_energy_and_one_parameter_at_every_rung():
    panels = rendered(plot_ladder(make(), "k[1]"))
    assert [texts(axes)[0] for axes in panels] == ["energy", "k[1]"]
    names = [label.get_text() for label in panels[0].get_yticklabels()]
    assert names == ["T = 1, fine", "T = 2, coarse", "T = 8, coarse"]
    assert [texts(axes)[0] for axes in rendered(make(stats=False).plot_ladder())] == ["x"]
    assert len(rendered(make(rungs=1, report={}).plot_ladder())) == 2


def test_ladder_takes_one_entry():
    with pytest.raises(ValueError, match="1 to 1 entries, got 2"):
        plot_ladder(make(), "k")


def test_predictive_shows_the_data_among_quantiles():
    run = make()
    panels = rendered(plot_predictive(run, Model(), x=[0, 1, 2, 4, 3], x_label="time", series=["u", "v"]))
    assert [texts(axes)[0] for axes in panels] == ["u", "v"]
    assert panels[1].get_xlabel() == "time"
    median, data = panels[1].lines
    np.testing.assert_array_equal(median.get_xdata(), [0, 1, 2, 3, 4])  # in order of x
    np.testing.assert_allclose(median.get_ydata(), [1, 3, 5, 9, 7], atol=0.05)
    np.testing.assert_array_equal(data.get_ydata(), [1, 3, 5, 7, 9])
    assert len(panels[0].collections) == 2
    # the prediction is kept, so the posterior is not needed again; without x nothing is joined
    panels = rendered(run.plot_predictive())
    assert panels[1].get_xlabel() == "datum"
    assert panels[0].lines[0].get_linestyle() == "None"


def test_predictive_refuses_what_does_not_fit():
    run = make()
    with pytest.raises(ValueError, match="posterior must be given"):
        run.plot_predictive()
    run.posterior_predictive(Model())
    with pytest.raises(
        ValueError,
        match=r"x must have an entry for each of the 5 along the first axis of the data, of shape \(5, 2\), got 3",
    ):
        run.plot_predictive(x=[1, 2, 3])
    with pytest.raises(ValueError, match="series must name 2 columns"):
        run.plot_predictive(series=["u"])
    empty = Run.from_arrays(None, Model().shapes, np.zeros((1, 4, 10, 3)), {}, {})
    with pytest.raises(ValueError, match="run must hold observed data"):
        empty.plot_predictive(Model())


@pytest.mark.parametrize("plot", [plot_trace, plot_marginals, plot_pairs])
def test_names_that_do_not_exist_or_are_too_many_are_refused(plot):
    run = make(rungs=1, shapes={"x": (), "k": (20,)})
    with pytest.raises(ValueError, match=r"names must be among x, k\[0\].*got 'z'"):
        plot(run, names=["z"])
    with pytest.raises(ValueError, match="1 to 8 entries, got 20"):
        plot(run, names=["k"])
    with pytest.raises(ValueError, match=r"got the string 'x'; write \['x'\]"):
        plot(run, names="x")


def test_without_names_the_first_eight_entries_are_shown():
    run = make(rungs=1, shapes={"x": (), "k": (20,)})
    panels = rendered(plot_marginals(run))
    assert [texts(axes)[0] for axes in panels] == run.labels[:8]


@pytest.mark.parametrize("plot", [plot_marginals, plot_pairs])
def test_truth_that_does_not_fit_is_refused(plot):
    with pytest.raises(ValueError, match="truth must name parameters among x, k, got 'z'"):
        plot(make(), truth={"z": 1.0})
    with pytest.raises(ValueError, match=r"truth\['k'\] must have shape \(2,\), got \(\)"):
        plot(make(), truth={"k": 1.0})


@pytest.mark.parametrize("value", [0.0, 1e9, np.nan])
@pytest.mark.parametrize("plot", [plot_trace, plot_marginals, plot_pairs, plot_ladder])
@pytest.mark.filterwarnings("error")
def test_draws_that_never_moved_or_broke_can_still_be_drawn(plot, value):
    stats = {"energy": np.full((2, 4, 50), value)}
    run = Run.from_arrays(None, {"x": (), "y": ()}, np.full((2, 4, 50, 2), value), stats, {})
    rendered(plot(run))


def test_a_reference_is_not_called_the_truth():
    figure = plot_marginals(make(), truth={"x": 0.5}, truth_label="published mean")
    assert [text.get_text() for legend in figure.legends for text in legend.get_texts()] == ["published mean"]


def test_labels_of_nine_temperatures_stand_apart():
    temperatures = [round(1.5**k, 2) for k in range(9)]
    report = {"temperatures": temperatures, "swap_attempts": [123_456] * 8, "swap_accepts": [45_678] * 8}
    figure = plot_swaps(make(rungs=9, report=report))
    figure.canvas.draw()
    rates = figure.axes[0]
    for labels in (rates.get_yticklabels(), rates.texts):
        boxes = [label.get_window_extent() for label in labels]
        assert len(boxes) == 8
        assert not any(one.overlaps(other) for k, one in enumerate(boxes) for other in boxes[:k])
        assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)


@pytest.mark.parametrize("positive", [False, True])
def test_no_rung_is_squeezed_by_the_hottest(positive):
    rng = np.random.default_rng(0)
    heights = np.array([1.0, 1e3, 1e6])[:, None, None]
    energy = heights * rng.chisquare(3, (3, 4, 300)) - 50.0
    theta = heights[..., None] ** 0.5 * rng.normal(size=(3, 4, 300, 1))
    theta = np.exp(np.log(np.abs(theta) + 0.1)) if positive else theta
    run = Run.from_arrays(None, {"x": ()}, theta, {"energy": energy}, {})
    for axes in rendered(plot_ladder(run)):
        filled = [patch for patch in axes.patches if patch.get_fill()]
        assert len(filled) == 3
        view = axes.transScale.transform(np.stack([axes.get_xlim(), (0, 1)], axis=1))[:, 0]
        for rung, patch in enumerate(sorted(filled, key=lambda patch: patch.get_data().baseline)):
            values, edges, _ = patch.get_data()
            seen = np.flatnonzero(values > rung + 0.1)
            ends = axes.transScale.transform(np.stack([edges[[seen[0], seen[-1] + 1]], (0, 1)], axis=1))[:, 0]
            assert np.diff(ends) > 0.08 * np.diff(view)
    # a ladder whose energies are of one size keeps its linear scale
    assert all(axes.get_xscale() == "linear" for axes in plot_ladder(make()).axes)


@pytest.mark.parametrize("plot", [plot_trace, plot_marginals, plot_pairs])
def test_figures_of_some_unknowns_say_so(plot):
    run = make(rungs=1, shapes={"k": (20,)}, draws=50)
    assert plot(run).get_supxlabel() == "the first 8 of 20 unknowns; choose by names="
    assert plot(run, names=["k[3]"]).get_supxlabel() == ""
    assert plot(make(rungs=1, shapes={"k": (8,)}, draws=50)).get_supxlabel() == ""
