"""Tables and sentences in HTML, for reports and notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

import numpy as np


def table(caption: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a head; a column of text is written as it is, floats with four digits, None and NaN as a dash."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in _cells(row))}</tr>" for row in rows)
    return _captioned(
        caption, f'<table aria-label="{escape(caption)}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    )


def facts(caption: str, rows: Iterable[tuple[str, str]]) -> str:
    """A table of names and what is said of each."""
    body = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(text)}</td></tr>' for name, text in rows)
    return _captioned(caption, f'<table class="words" aria-label="{escape(caption)}">{body}</table>')


def sentences(lines: Iterable[str]) -> str:
    """A paragraph with a line for each."""
    text = "<br>".join(escape(line) for line in lines)
    return f"<p>{text}</p>" if text else ""


def _captioned(caption: str, table: str) -> str:
    """The caption above what may be scrolled: it is read in a narrow window, too."""
    return f'<p class="caption">{escape(caption)}</p><div class="wide" style="overflow-x: auto">{table}</div>'


def _cells(row: Sequence[object]) -> Iterator[str]:
    for value in row:
        if value is None or (isinstance(value, float) and np.isnan(value)):
            yield "-"
        elif isinstance(value, float):
            yield f"{value:.4g}"
        elif isinstance(value, int):
            yield f"{value:,}"
        else:
            yield str(value)
