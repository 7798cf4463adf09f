"""What the code of a page prints and draws, written into the page below it: for code that `make docs` cannot run.

    .venv-dolfinx/bin/python -P docs/shown.py docs/tutorials/ufl.md

Every block of Python runs, in order. A block of text after it becomes what it printed; a figure after it is drawn anew,
if its last line makes one. Seconds that a run prints are those of the processor: a busy machine changes none.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import sys
import time
from pathlib import Path

import h5py  # noqa: F401  (before dolfinx, which hides HDF5 from it)
from matplotlib.figure import Figure

#: Code, then text or a figure, or neither.
BLOCK = re.compile(
    r"```python\n(?P<code>.*?)```\n(?P<shown>\n```text\n.*?```\n|\n!\[[^]]*\]\((?P<picture>[^)]+)\)\n)?", re.DOTALL
)


def executed(code: str, names: dict[str, object]) -> tuple[str, object]:
    """What it prints, and the value of its last line if that is an expression."""
    tree, value = ast.parse(code), None
    *_, end = tree.body
    last = ast.Expression(tree.body.pop().value) if isinstance(end, ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "<page>", "exec"), names)
        if last is not None:
            value = eval(compile(last, "<page>", "eval"), names)
    return printed.getvalue(), value


def main(path: Path) -> None:
    """Run the page and write it anew."""
    time.perf_counter = time.process_time  # before invsamp is imported
    from dolfinx import fem

    names: dict[str, object] = {}

    def block(found: re.Match[str]) -> str:
        code, began = found["code"], time.process_time()
        in_words = code if hasattr(fem, "functionspace") else code.replace("fem.functionspace(", "fem.FunctionSpace(")
        printed, value = executed(in_words, names)
        print(f"{time.process_time() - began:.1f} s: {code.splitlines()[-1]}", file=sys.stderr)
        if found["picture"]:
            assert isinstance(value, Figure)
            value.savefig(path.parent / found["picture"], dpi=110)
        elif found["shown"]:
            said = printed or f"{value}\n"
            return f"```python\n{code}```\n\n```text\n{said}```\n"
        return found[0]

    path.write_text(BLOCK.sub(block, path.read_text()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
