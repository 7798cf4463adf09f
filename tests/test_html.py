"""What a notebook shows of posteriors, modes, profiles and calibrations: well-formed, and what they print."""

from __future__ import annotations

from html import escape
from html.parser import HTMLParser

import numpy as np
import pytest

import invsamp as iv
from invsamp import html
from invsamp.calibration.outcome import Calibration


class Cells(HTMLParser):
    """Rows of cells of all tables, and whether tags are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "br":
            return
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def posterior() -> iv.Posterior:
    slopes = np.arange(1.0, 7.0).reshape(3, 2)
    model = iv.with_jacobian(lambda theta: theta @ slopes.T, lambda theta: np.tile(slopes, (len(theta), 1, 1)))
    prior = iv.Prior(a=iv.Normal(0, 3), b=iv.Normal(0, 3))
    return iv.Posterior(prior, model, slopes @ [1.0, -2.0], iv.GaussianNoise(0.2))


def test_a_posterior_shows_its_unknowns_and_data(posterior: iv.Posterior) -> None:
    rows = Cells(posterior._repr_html_()).rows
    assert rows[:2] == [["unknown", "shape", "prior"], ["a", "", "Normal(mean=0.0, sd=3.0)"]]
    assert ["data", "3 numbers, shape (3,)"] in rows and ["noise", "GaussianNoise(scale=0.2)"] in rows
    likelihood = iv.Posterior(iv.Prior(a=iv.Normal(0, 1)), log_likelihood=lambda theta: -(theta**2).sum(axis=1))
    assert not any(row[0] == "data" for row in Cells(likelihood._repr_html_()).rows)


def test_modes_are_a_table(posterior: iv.Posterior) -> None:
    modes = iv.maximize(posterior, seed=1)
    head, row = Cells(modes._repr_html_()).rows
    assert head == ["energy", "log-likelihood", "weight", "starts", "a", "b"]
    assert row[:1] + row[2:] == [
        f"{modes.energies[0]:.6g}",
        "1",
        f"{modes.counts[0]}",
        *(f"{v:.4g}" for v in modes.theta[0]),
    ]
    for line in str(modes).splitlines()[2:]:
        assert escape(line) in modes._repr_html_()


def test_profiles_are_a_table(posterior: iv.Posterior) -> None:
    profiles = iv.profile(posterior, seed=1)
    head, *rows = Cells(profiles._repr_html_()).rows
    assert head == ["parameter", "best", "interval", "values without a fit"]
    for row, line in zip(rows, str(profiles).splitlines()[1:], strict=True):
        assert line.startswith(f"{row[0]}: ") and row[2] in line and row[3] == "0"


def test_a_calibration_is_a_table_with_a_verdict() -> None:
    ranks = np.random.default_rng(0).integers(0, 100, (200, 2))
    ranks[:, 1] = 0
    one = np.full(200, 500.0)
    found = Calibration(
        ("<k>", "energy"), np.arange(200), np.zeros((200, 1)), ranks, 99, one, {}, {}, 0.01, 1, "hmc", False
    )
    shown = found._repr_html_()
    head, worst, other = Cells(shown).rows
    assert head[:2] == ["quantity", "p-value"] and worst[0] == "energy" and "too high" in worst[4] and other[4] == ""
    assert other[0] == "<k>" and "NOT calibrated: 1 of 2" in shown


def test_cells_say_what_is_missing() -> None:
    rows = Cells(html.table("c", ["a"], [[None], [float("nan")], [1234], [0.123456]])).rows
    assert rows == [["a"], ["-"], ["-"], ["1,234"], ["0.1235"]]
    assert html.sentences([]) == ""
