"""The check of language rejects what it is to reject, reads what it is to read, and holds for the present text."""

from __future__ import annotations

import prose
import pytest

SOME_TWENTY = (
    "Each of these sentences has some twenty words, which is more than a reader takes in when there are many. "
)
LONG = "This sentence goes on and on " + "with one more clause, " * 9 + "and ends."
CODE = "```python\n" + "x = 1  # told " * 40 + "\n```\n"


def rules(texts) -> list[str]:
    return [finding.rule for finding in prose.check("file", list(texts), prose.replaced_words())]


@pytest.mark.parametrize(
    ("page", "broken"),
    [
        ("The run warns. It says why, e.g. by eq. (3) of Deng et al. (2020), with a number.", []),
        (LONG, ["long"]),
        ("- An item.\n- " + LONG, ["long"]),
        (f"A first paragraph.\n\n{CODE}\nA last one.", []),
        (f"# {LONG}\n\n| told | {LONG} |\n\n$$ {'x + ' * 40} y $$\n", []),
        (f"```{{note}}\n{LONG}\n```\n", []),  # a fence of backquotes encloses code, one of colons text
        (f":::{{note}}\n{LONG}\n:::\n", ["long"]),
        ("The law is told in `law` and [a page](told.md).", ["word", "word"]),
        ("A power law and the law of large numbers are the field's own words.", []),
        ("The modelling of colour.", ["word", "word"]),
        (SOME_TWENTY * 12, ["median"]),
        (SOME_TWENTY * 5, []),
    ],
)  # fmt: skip
def test_pages(page, broken):
    assert sorted(rules(prose.markdown(page))) == broken


def test_docstrings_messages_and_comments_of_python_are_read():
    source = f'''
"""A module."""

def function(x):
    """Do it.

    Parameters
    ----------
    x : {" or ".join(["float"] * 40)}
        {LONG}

    .. math:: {"x + " * 40}

    Examples
    --------
    >>> function({", ".join("0" * 40)})
    {"0 " * 40}

    References
    ----------
    {LONG}
    """
    # {LONG} Nobody is told.
    raise ValueError(f"x must be what the law says, got {{x}}")
'''
    texts = list(prose.python(source))
    assert sorted(rules(texts)) == ["long", "word", "word", "word"]
    assert any(text.words == "x must be what the law says, got `X`" for text in texts)


def test_messages_of_several_paragraphs_are_read_as_pages():
    source = f'PAGE = """# A page of some words\n\n| a table of words | {LONG} |\n\nThe law is told here.\n"""'
    assert rules(prose.python(source)) == ["word", "word"]


def test_findings_name_the_file_and_the_line(tmp_path, capsys, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(f"A line.\n\n{LONG}\n")
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    assert prose.main([str(page)]) == 1
    assert capsys.readouterr().out.startswith("page.md:3: long: 44 words: This sentence goes on")
    page.write_text("A line.\n")
    assert prose.main([str(page)]) == 0
    assert capsys.readouterr().out == "language: 0 findings\n"


def test_every_file_of_documents_and_sources_is_read():
    names = {path.relative_to(prose.ROOT).as_posix() for path in prose.files()}
    assert {"README.md", "docs/index.md", "invsamp/sampling.py", "solvers/ode/__init__.py"} <= names
    assert not any(name.startswith("invsamp/solvers") for name in names)  # a link to what is read already
