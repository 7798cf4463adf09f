"""How the documentation site is built: `make docs` writes it to docs/_build, without network."""

import os
import re
import shutil
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective
from sphinx.util.images import get_image_size

sys.path.insert(0, str(Path(__file__).parent))

project = "invsamp"
author = "The invsamp developers"
copyright = author
# of the sources: what is installed may be older
_project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
version = release = _project["version"]
#: Links in the head of each page: of `[project.urls]` in pyproject.toml, or of the environment.
URLS = {
    name: os.environ.get(f"{name.upper()}_URL", _project.get("urls", {}).get(name)) for name in ("Repository", "Issues")
}
# the command `invsamp` of this environment, for the tutorials
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

# made anew each time: pages of names that are no more would stay
shutil.rmtree(Path(__file__).parent / "reference" / "generated", ignore_errors=True)

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx-mathjax-offline",  # its MathJax is served with the pages
]
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]
if find_spec("torch") is None:
    exclude_patterns.append("reference/networks.md")
default_role = "py:obj"
suppress_warnings = ["toc.excluded", "mystnb.unknown_mime_type"]

myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

nb_execution_mode = "force"  # what a page shows is what the code of today does
nb_execution_raise_on_error = True
nb_execution_timeout = 900  # of a cell: the first of all waits for the compiler
templates_path = ["_templates"]
nb_merge_streams = True


def escape(app, what, name, obj, options, lines):
    """Let shapes such as (batch, *shape) stand in docstrings as a reader of the source expects them."""
    for number, line in enumerate(lines):
        pieces = re.split(r"(`[^`]*`)", line)
        lines[number] = "".join(p if p[:1] == "`" else re.sub(r"(?<=[ (])\*(?=[a-z])", r"\*", p) for p in pieces)


def versions(app):
    """Other versions of the site: folders beside its own that are called as versions are, and have a first page."""
    beside = Path(app.outdir).resolve().parent.glob("*/index.html")
    found = [page.parent.name for page in beside if re.fullmatch(r"\d+\.\d+\.\d+", page.parent.name)]
    own = Path(app.outdir).name
    app.config.html_context["versions"] = sorted(
        (n for n in found if n != own), key=lambda n: [*map(int, n.split("."))]
    )[::-1]


#: Pages that moved, by their old address: links from elsewhere still lead to them.
MOVED = {
    "start": "tutorials/start",
    "how-to": "how-to/index",
    "concepts": "explanation/index",
    "results": "validation/index",
    "papers": "validation/papers/index",
    "tests": "validation/tests",
    "peers": "validation/peers",
    "renamed": "reference/renamed",
    "api/index": "reference/index",
    "coming-from": "how-to/results/coming-from",
    "bring-your-model": "how-to/models/python-function",
    "extending": "how-to/extend/extending",
    "posing": "how-to/pose/custom-prior",
    "sampling": "how-to/sample/choose-a-sampler",
    "dynamics": "how-to/models/ode",
    "pde": "how-to/models/pde",
    "fields": "how-to/models/field-prior",
    "simulators": "how-to/models/black-box-executable",
    "emulation": "how-to/sample/emulate",
    "networks": "how-to/models/networks",
    "draws": "how-to/results/read-print-run",
    "runs": "how-to/sample/resume-after-a-kill",
    "tutorials/constraints": "how-to/pose/constraint",
    "tutorials/lasting": "how-to/sample/resume-after-a-kill",
    "tutorials/noise": "explanation/noise",
}


def redirect(app, exception):
    """A page at each old address that leads to the new one."""
    for old, new in MOVED.items() if app.builder.name == "html" and exception is None else ():
        page = Path(app.outdir) / f"{old}.html"
        page.parent.mkdir(exist_ok=True)
        address = f"{'../' * old.count('/')}{new}.html"
        page.write_text(
            f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Moved</title>'
            f'<meta http-equiv="refresh" content="0; url={address}"></head>'
            f'<body>This page is now <a href="{address}">{new}</a>.</body></html>\n'
        )


def sweep(app, exception):
    """Remove pages of an earlier build whose source is no more: those with a copy of their source among `_sources`."""
    sources = Path(app.outdir) / "_sources"
    for copy in sources.rglob("*.txt") if app.builder.name == "html" and exception is None else ():
        name = copy.relative_to(sources).with_suffix("").with_suffix("").as_posix()
        if name not in app.env.found_docs:
            copy.unlink()
            (Path(app.outdir) / f"{name}.html").unlink(missing_ok=True)


def link_pictures(app, doctree, page):
    """Give each stored picture its width: then it links to its full size, as narrow windows make many panels small."""
    for image in doctree.findall(nodes.image):
        size = get_image_size(app.srcdir / image["uri"]) if image["uri"].startswith("images/") else None
        if size and "sd-card-img-top" not in image["classes"]:
            image["width"] = f"{size[0]}px"


class Gallery(SphinxDirective):
    """Cards that lead to the named pages, each with the picture, the first sentence and the run time of its page."""

    has_content = True

    def run(self):
        folder, names = Path(self.get_source_info()[0]).parent, [line for line in self.content if line.strip()]
        lines = ["::::{grid} 1 2 3 3", ":gutter: 3", ":class-container: gallery", ""]
        for name in names:
            self.env.note_dependency(str(folder / f"{name}.md"))
            page = (folder / f"{name}.md").read_text()
            title, words = re.match(r"# (.*)\n\n(.*)\n", page).groups()
            picture, time = re.search(r"!\[.*\]\((.*)\)", page)[1], re.search(r"\| run time \| (.*) \|", page)[1]
            lines += [f":::{{grid-item-card}} {title}", f":link: {name}", ":link-type: doc", f":img-top: {picture}"]
            lines += ["", words, "", f"Run time: {time}.", ":::", ""]
        lines += ["::::", "", "```{toctree}", ":hidden:", "", *names, "```"]
        container = nodes.Element()
        self.state.nested_parse(StringList(lines, self.get_source_info()[0]), 0, container)
        return container.children


def setup(app):
    app.add_directive("gallery", Gallery)
    app.connect("doctree-resolved", link_pictures)
    app.connect("autodoc-process-docstring", escape)
    app.connect("build-finished", sweep)
    app.connect("build-finished", redirect)
    app.connect("config-inited", lambda app, config: versions(app))


autodoc_typehints = "none"  # the docstrings say it, with shapes and units
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "invsamp"
html_static_path = ["_static"]
html_css_files = ["invsamp.css"]
html_show_sourcelink = False
html_context = {}
html_sidebars = {"index": [], "gallery/index": []}
html_theme_options = {
    "show_nav_level": 1,
    "navbar_align": "left",
    "navbar_end": ["versions", "theme-switcher", "navbar-icon-links"],
    "icon_links": [
        {"name": name, "url": url, "icon": icon, "type": "fontawesome"}
        for (name, url), icon in zip(URLS.items(), ("fa-solid fa-code", "fa-solid fa-bug"), strict=True)
        if url
    ],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
