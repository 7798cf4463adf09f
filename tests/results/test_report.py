"""The page of a run: what it says is what the run says, it needs nothing else, and a browser shows it."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import invsamp as iv
from invsamp.commands import main
from invsamp.results.report import page
from invsamp.results.run import Run

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Page(HTMLParser):
    """Tags, their attributes, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def line(theta: np.ndarray) -> np.ndarray:
    return theta[:, :1] + theta[:, 1:] * np.arange(5.0)


def jacobian(theta: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.stack([np.ones(5), np.arange(5.0)], axis=1), (len(theta), 5, 2))


@pytest.fixture(scope="module")
def posterior() -> iv.Posterior:
    prior = iv.Prior(a=iv.Normal(0, 3), b=iv.Normal(0, 3))
    data = [0.1, 1.1, 1.9, 3.2, 3.8]
    return iv.Posterior(prior, iv.with_jacobian(line, jacobian), data=data, noise=iv.GaussianNoise(0.2))


@pytest.fixture(scope="module")
def run(posterior: iv.Posterior, tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("report") / "run"
    return iv.sample(posterior, iv.samplers.parallel_tempering(), draws=500, seed=1, directory=path, progress=False)


@pytest.fixture(scope="module")
def text(run: Run, posterior: iv.Posterior) -> str:
    return page(run, posterior, "A line")


def test_it_says_what_the_run_says(run: Run, text: str) -> None:
    shown = Page(text)
    assert [tag for tag, _ in shown.tags if tag == "h1"] == ["h1"] and "A line" in shown.text
    for label, row in run.summary().iterrows():
        for value in (row["mean"], row["sd"]):
            assert re.search(rf"<tr><td>{label}</td>(<td>[^<]*</td>)*?<td>{value:.4g}</td>", text)
    assert "Normal(mean=0.0, sd=3.0" in shown.text and "GaussianNoise(scale=0.2)" in shown.text
    assert f"{run.report['evaluations']['model']:,}" in shown.text
    assert ("No warnings" in shown.text) == (not run.warnings())
    pictures = [attributes for tag, attributes in shown.tags if tag == "img"]
    assert len(pictures) == 7 and all(picture["alt"] for picture in pictures)


def test_it_needs_nothing_else(text: str) -> None:
    assert "<script" not in text and not re.search(r'(src|href)="(?!data:)', text) and "url(" not in text


def test_names_and_messages_are_no_markup() -> None:
    nasty = "<img src=x onerror=alert(1)>"
    theta = np.random.default_rng(0).normal(size=(1, 4, 50, 1))
    report = {"sampler": nasty, "warnings": [nasty], "posed": {"prior": {"x": nasty}}, "failure_message": nasty}
    problem = SimpleNamespace(data=np.zeros(3))
    text = page(Run.from_arrays(problem, {"x": ()}, theta, {}, report), title=nasty)
    assert nasty not in text and text.count("&lt;img src=x") >= 5
    assert "read before use" in text


def test_figures_of_the_data_are_over_time_and_say_what_they_leave_out() -> None:
    theta = np.random.default_rng(0).normal(size=(1, 4, 50, 9))
    report = {"posed": {"axes": {"times": [0.0, 2.0, 9.0]}}}
    run = Run.from_arrays(SimpleNamespace(data=np.zeros(3)), {"x": (9,)}, theta, {}, report)
    text = Page(page(run)).text
    assert "times 3, from 0 to 9" in " ".join(text.split())
    alts = [attributes["alt"] for tag, attributes in Page(page(run)).tags if tag == "img"]
    assert "Densities of pairs of parameters, of the first 6 of 9" in alts


def test_a_report_leaves_pyplot_alone(run: Run, posterior: iv.Posterior) -> None:
    import matplotlib.pyplot as plt

    plt.figure()
    page(run, posterior)
    assert len(plt.get_fignums()) == 1


def test_least_of_runs() -> None:
    theta = np.zeros((1, 1, 1, 1))
    assert "Nothing was counted" in page(Run.from_arrays(None, {"x": ()}, theta, {}, {}))


def test_what_evaluations_went_into() -> None:
    spent = dict.fromkeys(("descents", "looks", "failed", "warm-up", "points_most"), 0)
    report = {"spent": spent | {"descents": 1234, "descents_most": 8000, "draws": 9000}}
    text = page(Run.from_arrays(None, {"x": ()}, np.zeros((1, 4, 50, 1)), {}, report))
    assert "Evaluations by purpose: optimization 1,234 (limit about 8,000), warm-up 0, draws 9,000." in text


def test_as_a_method_and_as_a_command(run: Run, posterior: iv.Posterior, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    run.report_html(out, posterior, title="Mine")
    assert "<h1>Mine</h1>" in out.read_text()
    run.save(tmp_path / "run.nc")
    assert main(["report", str(tmp_path / "run.nc"), "--out", str(out)]) == 0
    assert "<h1>Report of run.nc</h1>" in out.read_text()
    with pytest.raises(ValueError, match="posterior must be"):
        run.report_html(out, "posterior")
    other = iv.Posterior(
        iv.Prior(k=iv.Normal(0.0, 1.0)), iv.finite_differences(lambda k: k), [0.0], iv.GaussianNoise(1.0)
    )
    with pytest.raises(ValueError, match="posterior must have the parameters of the run"):
        run.report_html(out, other)
    with pytest.raises(FileNotFoundError):
        run.report_html(tmp_path / "no" / "report.html")


def test_in_a_notebook_it_is_what_is_printed(run: Run) -> None:
    shown = Page(run._repr_html_())
    words = " ".join(shown.text.split())
    for line in repr(run).splitlines():
        assert " ".join(line.strip(" -").split()) in words
    assert [tag for tag, _ in shown.tags].count("table") == 1


@pytest.mark.skipif(BROWSER is None, reason="no browser (chromium) is installed")
@pytest.mark.parametrize("width", [pytest.param(1200, marks=pytest.mark.slow), 400])
def test_in_a_browser(text: str, tmp_path: Path, width: int) -> None:
    measure = """<script>onload = () => document.title = JSON.stringify({
        wide: document.documentElement.scrollWidth, window: innerWidth,
        cut: [...document.querySelectorAll(".wide")].filter(e => e.scrollWidth > e.clientWidth).length,
        pictures: [...document.images].filter(i => i.complete && i.naturalWidth > 0).length})</script>"""
    (tmp_path / "report.html").write_text(text + measure)
    shown = browse(tmp_path, width, "--dump-dom")
    found = re.search(r'{"wide":(\d+),"window":(\d+),"cut":(\d+),"pictures":(\d+)}', shown.replace("&quot;", '"'))
    assert found, shown[:500]
    wide, window, cut, pictures = map(int, found.groups())
    assert wide <= window and pictures == 7  # nothing has to be pushed aside to be read
    assert width < 1000 or cut == 0  # R-hat, the last column, is seen


def browse(folder: Path, width: int, *what: str) -> str:
    home = folder / "home"
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={home}", "--no-first-run"]
    place = (folder / "report.html").as_uri()
    command += [f"--window-size={width},1000", "--virtual-time-budget=10000", *what, place]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout


def test_of_a_large_block_some_entries_are_shown_and_the_others_counted():
    theta = np.random.default_rng(0).standard_normal((1, 4, 100, 3001))
    run = Run.from_arrays(None, {"x": (3000,), "a": ()}, theta, {"energy": theta[..., 0]}, {"chains": 4, "draws": 100})
    assert list(run.short_summary().index[-2:]) == ["a", "energy"]
    assert "2,950 more rows" in page(run)
    few = Run.from_arrays(None, {"x": (3,)}, theta[..., :3], {"energy": theta[..., 0]}, {"chains": 4, "draws": 100})
    assert "more rows" not in page(few)
