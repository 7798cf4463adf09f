"""The documentation site: it is built without a warning, its tutorials run, and a browser shows it."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from public_names import public
from search_terms import TERMS

ROOT = Path(__file__).parents[1]
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
#: Of the rules of axe-core, those that a page alone decides; what can be scrolled becomes focusable later, by script.
RULES = ["color-contrast", "image-alt", "link-name", "button-name", "document-title", "html-has-lang", "label"]
#: What is no page's matter, and what has its page by another name.
ELSEWHERE = {"invsamp.__version__", "invsamp.solvers.heat.GaussianBump"}
#: What the script that is put into a page finds there, as JSON.
LOOK = """
<script src="{axe}"></script>
<script>
addEventListener("load", () => axe.run(document, {{runOnly: {rules}}}).then((found) => {{
  const measured = document.createElement("pre");
  measured.id = "measured";
  measured.textContent = JSON.stringify({{
    text: document.body.innerText,
    overflow: document.documentElement.scrollWidth - window.innerWidth,
    broken: [...document.images].filter((image) => !image.naturalWidth).map((image) => image.src),
    faults: found.violations.map((rule) => [rule.id, rule.nodes.map((node) => node.html)]),
  }});
  document.body.replaceChildren(measured);
}}));
</script></body>
"""
#: The first result of each term, by the functions that the page of searches calls.
SEARCH = """
<script>
addEventListener("load", () => {{
  const look = () => {{
    if (!Search.hasIndex()) return setTimeout(look, 50);
    const first = (term) => Search._performSearch(...Search._parseQuery(term)).at(-1)?.[0];
    const found = document.createElement("pre");
    found.id = "found";
    found.textContent = JSON.stringify(Object.fromEntries({terms}.map((term) => [term, first(term)])));
    document.body.replaceChildren(found);
  }};
  look();
}});
</script></body>
"""


def test_every_public_name_has_its_line() -> None:
    """The names alone, without a build."""
    listed = set()
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        for block in re.findall(r"```{eval-rst}\n(.*?)```", page.read_text(), re.DOTALL):
            (module,) = re.findall(r"currentmodule:: (\S+)", block)
            listed |= {f"{module}.{name}" for name in re.findall(r"^   (\w+)$", block, re.MULTILINE)}
    named = {name for name in public() if not name.startswith("invsamp.problems.")}
    assert len(listed) > 100 and not named - listed - ELSEWHERE


@pytest.mark.parametrize("tutorial", ["ode", "field"])
def test_a_problem_is_posed_and_sampled_in_under_thirty_lines_without_a_number_to_tune(tutorial: str) -> None:
    text = (ROOT / "docs" / "tutorials" / f"{tutorial}.md").read_text()
    code = re.findall(r"```{code-cell}\n(.*?)```", text, re.DOTALL)[0]
    assert sum(bool(line.strip()) for line in code.splitlines()) < 30
    (sample,) = re.findall(r"iv\.sample\(posterior(.*)\)", code)
    assert set(re.findall(r"(\w+)=", sample)) <= {"draws", "seed", "progress"} and "iv." not in sample


@pytest.mark.slow
def test_the_site(tmp_path: Path) -> None:
    pytest.importorskip("myst_nb")
    site, before = tmp_path / "site", tmp_path / "0.1.0"
    before.mkdir()
    (before / "index.html").write_text("<title>before</title>")
    for stale in ("_sources/how-to/gone.md.txt", "how-to/gone.html", "how-to/added.html"):  # added: not by a build
        (site / stale).parent.mkdir(parents=True, exist_ok=True)
        (site / stale).write_text("before")
    command = [
        sys.executable,
        "-P",
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-b",
        "html",
        str(ROOT / "docs"),
        str(site),
    ]
    built = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    assert built.returncode == 0, built.stderr[-9000:]
    for page, folder in (("index.html", "./"), ("reference/generated/invsamp.sample.html", "../../")):
        assert f'<a href="{folder}../0.1.0/index.html">0.1.0</a>' in (site / page).read_text()
    assert not (site / "how-to" / "gone.html").exists() and (site / "how-to" / "added.html").exists()
    every_page_says_its_version(site)
    every_public_name_has_a_page(site)
    tutorials_show_what_they_did(site)
    if BROWSER is not None:
        a_browser_shows_it(site)


def every_public_name_has_a_page(site: Path) -> None:
    pages = {page.stem for page in (site / "reference" / "generated").glob("*.html")}
    missing = [name for name in public() if not name.startswith("invsamp.problems.") and name not in pages | ELSEWHERE]
    assert not missing


def tutorials_show_what_they_did(site: Path) -> None:
    for page in [*(site / "tutorials").glob("*.html"), *(site / "explanation").glob("*.html")]:
        text = page.read_text()
        for strange in (str(ROOT), sys.prefix, "/tmp/", "not found", "InvsampWarning:", "UserWarning:", "it/s]"):
            assert strange not in text, f"{page.name} shows {strange}"
        for image in re.findall(r"<img [^>]*>", text):
            assert re.search(r'alt="[^"]{10,}"', image), f"{page.name} has a figure without words: {image}"
    assert "no warnings" in (site / "tutorials" / "start.html").read_text()


def every_page_says_its_version(site: Path) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for page in ("index.html", "reference/generated/invsamp.sample.html"):
        assert f"<summary>{version}</summary>" in (site / page).read_text()


def a_browser_shows_it(site: Path) -> None:
    for page, width, words in (
        ("index.html", 1200, "Who should use something else"),
        ("index.html", 500, "Who should use something else"),
        ("gallery/index.html", 500, "Influenza"),
        ("tutorials/field.html", 1200, "surely above 1 on"),
        ("tutorials/field.html", 500, "surely above 1 on"),
        ("reference/generated/invsamp.sample.html", 1200, "Draws kept for each chain"),
    ):
        measured = looked_at(site / page, width)
        assert words in measured["text"]
        assert measured["overflow"] <= 0, f"{page} is {measured['overflow']} pixels too wide for {width}"
        assert not measured["broken"] and not measured["faults"], measured
    results = dumped(f"file://{site}/search.html?q=surrogate_exchange", 1200)
    assert "reference/generated/invsamp.samplers.surrogate_exchange.html" in results
    terms_find_their_pages(site)


def terms_find_their_pages(site: Path) -> None:
    """By the search of the site itself, in one visit."""
    expected = {term: page for page, terms in TERMS.items() for term in terms}
    copy = site / "looked_at_search.html"
    search = (site / "search.html").read_text()
    copy.write_text(search.replace("</body>", SEARCH.format(terms=json.dumps(list(expected)))))
    shown = dumped(copy.as_uri(), 1200)
    copy.unlink()
    found = json.loads(html.unescape(re.search(r'<pre id="found">(.*?)</pre>', shown, re.DOTALL)[1]))
    assert not {term: found[term] for term, page in expected.items() if found[term] != page}


def looked_at(page: Path, width: int) -> dict:
    axe = Path(pytest.importorskip("axe_core_python").__file__).with_name("axe.min.js")
    copy = page.with_name(f"looked_at_{page.name}")
    look = LOOK.format(axe=axe.as_uri(), rules=json.dumps(RULES))
    copy.write_text(page.read_text().replace("</body>", look))
    shown = dumped(copy.as_uri(), width)
    copy.unlink()
    found = re.search(r'<pre id="measured">(.*?)</pre>', shown, re.DOTALL)
    assert found, "the page's scripts did not come to an end"
    return json.loads(html.unescape(found[1]))


def dumped(address: str, width: int) -> str:
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom"]
    settings = [f"--window-size={width},1600", "--virtual-time-budget=30000"]
    return subprocess.run([BROWSER, *options, *settings, address], capture_output=True, text=True, timeout=240).stdout
