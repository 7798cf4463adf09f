"""Warnings have codes: one registry, which the code, the page and the report agree with."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import warnings_page

import invsamp as iv
from invsamp.warning_codes import CODES, code_of, coded

PACKAGE = Path(iv.__file__).parent


def short_run() -> iv.Run:
    density = iv.LogDensity(lambda x: -0.5 * (x**2).sum(axis=1), lambda x: -x, dimension=2)
    return iv.sample(iv.Target(density), iv.mala(), draws=20, warmup=100, start=np.ones(2), seed=1, progress=False)


def test_every_code_that_is_used_has_an_entry_and_every_entry_is_used() -> None:
    text = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "warning_codes.py")
    assert set(re.findall(r'"(IV-[A-Z-]+)"', text)) == set(CODES)
    with pytest.raises(KeyError):
        coded("IV-UNKNOWN", "nothing")


def test_the_page_is_that_of_the_registry() -> None:
    # python -P tests/tools/warnings_page.py writes it
    assert warnings_page.PAGE.read_text() == warnings_page.page()


def test_a_run_warns_with_codes_that_filter_explain_and_link(tmp_path: Path) -> None:
    with pytest.warns(iv.diagnostics.InvsampWarning) as caught:
        run = short_run()
    codes = {code_of(message) for message in run.warnings()}
    assert {"IV-ESS", "IV-RHAT"} <= codes and None not in codes
    assert {code_of(str(one.message)) for one in caught} == codes
    with warnings.catch_warnings(record=True) as left:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", message="IV-ESS")
        short_run()
    assert {code_of(str(one.message)) for one in left} == codes - {"IV-ESS"}
    assert re.search(r"iv\.diagnostics\.explain\(\"(IV-[A-Z-]+)\"\)", repr(run)).group(1) in codes
    run.report_html(tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    for code in codes:
        assert f'href="#{code}"' in html and f'id="{code}"' in html
        assert CODES[code].title in iv.diagnostics.explain(code)


def test_every_entry_names_a_cause_and_a_remedy() -> None:
    for code, entry in CODES.items():
        assert re.fullmatch(r"IV(-[A-Z]+)+", code)
        assert len(entry.title) < 70 and entry.cause.endswith(".") and entry.remedy.endswith(".")
