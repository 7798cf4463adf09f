"""What a newcomer types into the site's search leads to the right page first."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from search_terms import TERMS

DOCS = Path(__file__).parents[1] / "docs"


def entries(page: Path) -> list[str]:
    """What the page puts into the index."""
    found = re.findall(r"```\{index\} (.*)\n```", page.read_text())
    return [entry.strip(" !").lower() for line in found for entry in line.split(",")]


def test_there_are_enough_terms() -> None:
    assert sum(map(len, TERMS.values())) >= 60


@pytest.mark.parametrize("page", TERMS)
def test_the_index_leads_to_one_page(page: str) -> None:
    """An entry of the index that is the query itself has the highest score there is; tests/test_site.py searches."""
    of_all = Counter(entry for path in DOCS.rglob("*.md") if "generated" not in path.parts for entry in entries(path))
    own = entries(DOCS / f"{page}.md")
    for term in TERMS[page]:
        assert term.lower() in own and of_all[term.lower()] == 1, term
