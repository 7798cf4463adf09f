#!/usr/bin/env python3
"""Write the page about warnings from their registry.

python -P tests/tools/warnings_page.py
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from invsamp.warning_codes import CODES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "warnings.md"
HEAD = """# Warnings

```{index} !warnings, !warning codes
```

A run warns where its draws cannot be trusted. `run.warnings()` repeats the messages.
`print(iv.diagnostics.explain("IV-RHAT"))` shows an entry of this page. Messages begin with their code, for the standard
filter:

```python
import warnings

import invsamp as iv

warnings.filterwarnings("ignore", message="IV-SD")  # one code
warnings.filterwarnings("error", category=iv.diagnostics.InvsampWarning)  # all others become errors
```

A filtered message still stands in `run.warnings()`, `print(run)` and the report. Draws are returned even where warnings
are errors.
"""


def page() -> str:
    """The text."""
    parts = [HEAD]
    for code, entry in CODES.items():
        texts = (f"**{entry.title}.** {entry.cause}", f"**Remedy.** {entry.remedy}")
        body = "\n\n".join(textwrap.fill(_literal(text), 120, break_on_hyphens=False) for text in texts)
        parts.append(f"## {code}\n\n{body}\n")
    return "\n".join(parts)


#: An expression: a call or a name of the package, an argument with what it is given, a name in snake case.
_CODE = re.compile(
    r"(?:(?:iv|run|posterior)\.[\w.]+|[A-Z]\w+)\((?:[^()]|\([^()]*\))*\)|(?:iv|run)\.[\w.]*\w"
    r"|\b\w+=(?:\{[^}]*\}|'\w+'|iv\.\w+\([^()]*\)|\w+\b)?|\b[a-z]+_\w+\b"
)


def _literal(text: str) -> str:
    """What is code as code."""
    return _CODE.sub(lambda found: f"`{found.group()}`", text)


if __name__ == "__main__":
    PAGE.write_text(page())
