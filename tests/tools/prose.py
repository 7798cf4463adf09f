#!/usr/bin/env python3
"""Check the language of documents, docstrings, comments and messages.

    python tests/tools/prose.py [FILES ...]

No sentence has more than 35 words; the median of a file is at most 18; no word of `replaced_words.txt` occurs. Code,
formulas, tables, headings and lists of references are not read. Of Python files docstrings, comments and strings of at
least four words are read; comments for their words only. Names in backticks count as one word, and may be any.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
LONGEST, MEDIAN = 35, 18
#: Sentences from which a file's median says something.
ENOUGH = 12
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs/**/*.md")
SOURCES = tuple(f"{one}/**/*.py" for one in ("invsamp", "problems", "solvers", "examples", "benchmarks", "tests"))
#: Examples of what is rejected, and lists of names.
UNREAD = ("tests/tools/test_prose.py", "tests/tools/base_calls.py")
WORDS = Path(__file__).with_name("replaced_words.txt")

_ABBREVIATIONS = r"\b(?:e\.g|i\.e|cf|vs|al|eqs?|Eqs?|Figs?|Secs?|ch|pp?|approx|resp|No|St|Dr|[A-Z])\.$"
_END = re.compile(r"[.!?][\"')\]*_]*\s+(?=[\"'(\[*_]*[A-Z0-9`$]|\"[a-z])")
#: A string that is a piece of a program, a style sheet or a page.
_CODE = re.compile(r"[{};=]\s*$|<\w+|^\s*[\w.]+\(|^\s*import |^\s*def \w", re.MULTILINE)
_LIST_ITEM = re.compile(r"\s*[-*+]\s+")
_COMMENT = re.compile(r"(?:^|\s)#:? (.*)")
_NUMBERED = re.compile(r"\s*\d+[.)]\s+")
#: Sections of a docstring in which entries stand at the margin, and text is indented below them.
_ENTRIES = {"Parameters", "Returns", "Yields", "Raises", "Attributes", "Other Parameters", "Warns"}


class Text(NamedTuple):
    """A paragraph, list item, docstring's paragraph, comment or message."""

    line: int
    words: str
    #: Whether its sentences are counted: those of comments are not.
    sentences: bool = True


class Finding(NamedTuple):
    """What one rule says of one file."""

    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


def check(path: str, texts: Sequence[Text], replaced: Sequence[tuple[re.Pattern[str], str]]) -> list[Finding]:
    """All findings of a file, the median's last."""
    found, counts = [], []
    for text in texts:
        plain = _without_code(text.words)
        for pattern, instead in replaced:
            found += [
                Finding(path, text.line, "word", f"{match.group()!r}: write {instead}")
                for match in pattern.finditer(plain)
            ]
        for sentence in sentences(text.words) if text.sentences else ():
            counts.append(length(sentence))
            if counts[-1] > LONGEST:
                found.append(Finding(path, text.line, "long", f"{counts[-1]} words: {sentence}"))
    if len(counts) >= ENOUGH and statistics.median(counts) > MEDIAN:
        found.append(Finding(path, 1, "median", f"the median sentence has {statistics.median(counts):g} words"))
    return found


def sentences(text: str) -> list[str]:
    """The sentences of one paragraph; a full stop in an abbreviation, a number or code ends none."""
    plain, found, start = _without_code(text), [], 0
    for end in _END.finditer(plain):
        stop = end.start() + 1
        if not re.search(_ABBREVIATIONS, plain[start:stop]):
            found.append(plain[start : end.end()].strip())
            start = end.end()
    return [sentence for sentence in [*found, plain[start:].strip()] if length(sentence)]


def length(sentence: str) -> int:
    """Words, with numbers and names; signs between them are none."""
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def _without_code(text: str) -> str:
    """Code, formulas and targets of links as one word or none."""
    text = re.sub(r"\{[\w:-]+\}(?=`)|:[\w:]+:(?=`)", "", text)  # roles
    text = re.sub(r"(`+)(?:(?!\1).)+?\1|\$\$.+?\$\$|\$[^$]+\$", "`X`", text)
    return re.sub(r"\]\([^)]*\)|<!--.*?-->|https?://\S+", "", text)


# --- what is read


def markdown(source: str) -> Iterator[Text]:
    """Paragraphs and list items outside code, tables, headings and formulas."""
    blocks = re.compile(
        r"(?ms)\A---\n.*?^---$|^[ \t]*(`{3,}|~{3,}).*?^[ \t]*\1[ \t]*$"
        r"|^[ \t]*\$\$.*?\$\$[ \t]*$|<!--.*?-->|^[ \t]*<.*?>[ \t]*$"
    )
    source = blocks.sub(lambda match: "\n" * match.group().count("\n"), source)
    # text in boxes is text: what fences of colons enclose stays, and their own lines go
    source = re.sub(r"(?m)^[ \t]*(:{3,}.*|:\w[\w-]*:.*|#.*|\|.*|\(\w[\w-]*\)=)$", "", source)
    yield from _paragraphs(source.splitlines(), 1)


def docstring(text: str, line: int) -> Iterator[Text]:
    """The prose of a numpydoc string whose first line has that number."""
    lines, section, skipped = inspect.cleandoc(text).splitlines(), "", None
    kept = []
    for number, one in enumerate(lines):
        indent = len(one) - len(one.lstrip())
        if skipped is not None and one.strip() and indent <= skipped:
            skipped = None
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if re.fullmatch(r"-{3,}", following) and one:
            section, one = one, ""
        if one.lstrip().startswith(".. ") or (one.endswith("::") and skipped is None):
            kept.append("" if one.lstrip().startswith(".. ") else one)
            skipped = indent
            continue
        entry = section in _ENTRIES and indent == 0
        drawn = re.match(r"\s*(>>>|\.\.\.|=+ +=+|-{3,})|\s{4}python ", one)
        kept.append("" if skipped is not None or section == "References" or entry or drawn else one)
    yield from _paragraphs(_without_outputs(lines, kept), line)


def _without_outputs(lines: Sequence[str], kept: Sequence[str]) -> list[str]:
    """Without what examples print, and without rows of tables."""
    found, example, table = [], False, False
    for raw, one in zip(lines, kept, strict=True):
        example = raw.lstrip().startswith(">>>") or (example and bool(raw.strip()))
        border = re.match(r"\s*=+ +=+", raw)
        table = bool(border) or (table and bool(raw.strip()))
        found.append("" if example or table else one)
    return found


def _paragraphs(lines: Sequence[str], first: int) -> Iterator[Text]:
    """Lines that belong together, joined; a list item is a paragraph."""
    words: list[str] = []
    start = margin = 0
    numbered = True  # whether a number may begin an item, and is not one of the sentence before it
    for number, one in enumerate([*lines, ""]):
        indent = len(one) - len(one.lstrip())
        item = _LIST_ITEM.match(one) or (_NUMBERED.match(one) if numbered else None)
        numbered = not one.strip() or bool(item) or (numbered and indent > 0)
        if words and (not one.strip() or item or margin - indent > 1):
            yield Text(first + start, " ".join(words))
            words = []
        if one.strip():
            if not words:
                start, margin = number, indent
            words.append(one[item.end() if item else 0 :].strip().lstrip("> "))


def python(source: str) -> Iterator[Text]:
    """Docstrings, messages and comments."""
    tree = ast.parse(source)
    documented = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            inner = node.body[0]
            if (
                isinstance(inner, ast.Expr)
                and isinstance(inner.value, ast.Constant)
                and isinstance(inner.value.value, str)
            ):
                documented.add(inner.value)
                yield from docstring(inner.value.value, inner.lineno)
    yield from _messages(tree, documented)
    for number, line in enumerate(source.splitlines(), 1):
        if comment := _COMMENT.search(line):
            yield Text(number, comment.group(1), sentences=False)


def _messages(node: ast.AST, documented: set[ast.Constant]) -> Iterator[Text]:
    """Strings of four words and more, with what is inserted as one word."""
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "`X`" for part in node.values]
        words = "".join(map(str, parts))
    else:
        words = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        for child in ast.iter_child_nodes(node):
            if child not in documented:
                yield from _messages(child, documented)
    if re.search(r"\n\s*\n", words) and not _CODE.search(words):
        yield from (Text(getattr(node, "lineno", 1) + text.line - 1, text.words) for text in markdown(words))
        return
    prose = re.sub(r"\s+", " ", words).strip()
    if len(re.findall(r"\b[a-zA-Z]{2,}\b", prose)) >= 4 and not _CODE.search(words):
        yield Text(getattr(node, "lineno", 1), prose)


# --- the command


def replaced_words() -> list[tuple[re.Pattern[str], str]]:
    """Patterns, and what to write instead."""
    lines = [line for line in WORDS.read_text().splitlines() if line and not line.startswith("#")]
    pairs = [line.split(" -> ") for line in lines]
    return [(re.compile(rf"\b(?:{pattern.strip()})\b", re.IGNORECASE), instead) for pattern, instead in pairs]


def files() -> list[Path]:
    """All that is read, in the order of the paths."""
    found = {path for pattern in (*DOCUMENTS, *SOURCES) for path in ROOT.glob(pattern)} - {ROOT / one for one in UNREAD}
    return sorted(path for path in found if not path.is_symlink() and not {"_build", "generated"} & set(path.parts))


def read(path: Path) -> list[Text]:
    """The texts of a file."""
    return list((markdown if path.suffix == ".md" else python)(path.read_text()))


def findings(paths: Sequence[Path]) -> list[Finding]:
    """What the files break."""
    replaced = replaced_words()
    names = [path.resolve().relative_to(ROOT).as_posix() for path in paths]
    return [one for name, path in zip(names, paths, strict=True) for one in check(name, read(path), replaced)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the findings, and return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="files to check; by default all")
    found = findings(parser.parse_args(arguments).files or files())
    print("\n".join([*map(str, found), f"language: {len(found)} finding{'s' * (len(found) != 1)}"]))
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main())
