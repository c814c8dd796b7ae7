"""TeX: the text without comments and most commands, sections as `# Heading` lines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from quoth.records import Problem
from quoth.text.readers.decoding import decode_whole
from quoth.text.readers.outcomes import Outcome, Whole, file_document

_COMMENT = re.compile(r"(?<!\\)%.*?(?:\n[ \t]*|$)")
_LEVELS = ("part", "chapter", "section", "subsection", "subsubsection", "paragraph")
_HEADING = re.compile(
    r"\\(part|chapter|(?:sub){0,2}section|paragraph)\*?(?:\[[^\]]*\])?\{([^{}]*)\}"
)
_DROPPED = re.compile(
    r"\\(?:label|ref|eqref|pageref|cite[a-z]*|usepackage|documentclass|bibliography|input|include"
    r"|includegraphics|bibliographystyle|vspace|hspace|begin|end)\*?(?:\[[^\]]*\])*\{[^{}]*\}"
    r"(?:\[[^\]]*\])?"
)
_WRAPPED = re.compile(r"\\[A-Za-z]+\*?(?:\[[^\]]*\])?\{([^{}]*)\}")
_COMMAND = re.compile(r"\\(?:[A-Za-z]+\*?[ \t]?|\\)")
_ESCAPED = re.compile(r"\\([%$&#_{} ])")
_BRACE = re.compile(r"(?<!\\)[{}]")
_BLANK = re.compile(r"\n{3,}")
_MOST_DEPTH = 8


def read_tex(whole: Whole) -> Iterator[Outcome]:
    """Read a TeX file as one document."""
    text = decode_whole(whole)
    if isinstance(text, Problem):
        yield text
        return
    title = re.search(r"\\title(?:\[[^\]]*\])?\{([^{}]*)\}", text)
    yield file_document(
        whole, format="tex", text=strip_tex(text), title=strip_tex(title[1]) if title else ""
    )


def strip_tex(text: str) -> str:
    r"""Take commands away and keep what they set.

    >>> strip_tex("\\section{Owls} They \\emph{hunt} at $50\\%$. % why\n\\cite{a}")
    '# Owls\n\nThey hunt at $50%$.'
    """
    body = re.search(r"\\begin\{document\}(.*?)(?:\\end\{document\}|\Z)", text, re.DOTALL)
    found = _COMMENT.sub("\n", body[1] if body else text)
    found = _HEADING.sub(lambda each: f"\n\n{_marks(each[1])} {each[2]}\n\n", found)
    found = _DROPPED.sub("", found)
    for _depth in range(_MOST_DEPTH):
        inner = _WRAPPED.sub(r"\1", found)
        if inner == found:
            break
        found = inner
    found = _ESCAPED.sub(r"\1", _BRACE.sub("", _COMMAND.sub(" ", found)))
    lines = (" ".join(line.split()) for line in found.replace("~", " ").split("\n"))
    return _BLANK.sub("\n\n", "\n".join(lines)).strip()


def _marks(name: str) -> str:
    return "#" * max(1, _LEVELS.index(name) - 1)
