"""How records look in a notebook: HTML for `_repr_html_`, every text from documents escaped.

The functions take records by what they have, so that `records` can use them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_QUIET = "color:#777;font-size:0.9em"
_MARK = "background:#fdebb0;color:#1e2126"
_LONGEST = 400  # characters of a passage


def safe(text: object) -> str:
    """Escape a text, and replace what could reorder the line it stands in.

    >>> safe('<b onclick="x">')
    '&lt;b onclick=&quot;x&quot;&gt;'
    """
    return escape(_UNSAFE.sub("\N{REPLACEMENT CHARACTER}", str(text)), quote=True)


def hits_html(hits: Iterable[Any], told: str = "") -> str:
    """Write shown hits as a list, best first."""
    rows = "".join(f"<li value='{each.rank}'>{_shown_hit(each)}</li>" for each in hits)
    head = f"<p style='{_QUIET}'>{safe(told)}</p>" if told else ""
    return f"<div>{head}<ol>{rows}</ol></div>"


def hit_html(hit: Any) -> str:
    """Write a hit: docid, score and passage."""
    text = hit.passage.text if hit.passage is not None else ""
    return f"<div>{_head(hit.docid, hit)}<div>{safe(_cut(text))}</div></div>"


def answer_html(answer: Any) -> str:
    """Write an answer: what is quoted is marked and numbered, the sources follow."""
    docids = list(dict.fromkeys(each.passage.docid for each in answer.citations))
    parts, at = [], 0
    for each in sorted(answer.citations, key=lambda cited: cited.answer_span.start):
        start, end = max(at, each.answer_span.start), each.answer_span.end
        parts.append(safe(answer.text[at:start]))
        number = docids.index(each.passage.docid) + 1
        quoted = safe(answer.text[start:end])
        parts.append(f"<mark style='{_MARK}'>{quoted}</mark><sup>{number}</sup>")
        at = max(at, end)
    parts.append(safe(answer.text[at:]))
    sources = "".join(f"<li>{_source(docid, answer.citations)}</li>" for docid in docids)
    sure = f"<p style='{_QUIET}'>{safe(answer.confidence)}, support {answer.support:.2f}</p>"
    return f"<div><p>{''.join(parts)}</p>{sure}<ol>{sources}</ol></div>"


def part_html(part: Any) -> str:
    """Write an explanation as a nested list of what it is the sum of."""
    inner = "".join(f"<li>{part_html(each)}</li>" for each in part.parts)
    below = f"<ul>{inner}</ul>" if inner else ""
    return f"<code>{part.value:.4f}</code> {safe(part.label)}{below}"


def _shown_hit(shown: Any) -> str:
    title = shown.title or shown.hit.docid
    parts = [_head(title, shown.hit)]
    if shown.snippet is not None:
        parts.append(f"<div>{_marked(shown.snippet.text, shown.snippet.highlights)}</div>")
    elif shown.hit.passage is not None:
        parts.append(f"<div>{safe(_cut(shown.hit.passage.text))}</div>")
    if shown.explanation is not None:
        parts.append(f"<div>{part_html(shown.explanation)}</div>")
    return "".join(parts)


def _head(title: str, hit: Any) -> str:
    docid = f" {safe(hit.docid)}" if title != hit.docid else ""
    return f"<b>{safe(title)}</b> <span style='{_QUIET}'>{hit.score:.3f}{docid}</span>"


def _marked(text: str, spans: Sequence[Any]) -> str:
    parts, at = [], 0
    for span in spans:
        parts.append(safe(text[at : span.start]))
        parts.append(f"<mark style='{_MARK}'>{safe(text[span.start : span.end])}</mark>")
        at = span.end
    return "".join(parts) + safe(text[at:])


def _source(docid: str, citations: Iterable[Any]) -> str:
    own = [each for each in citations if each.passage.docid == docid]
    places = ", ".join(
        f"{each.passage.field} {each.passage_span.start}–{each.passage_span.end}" for each in own
    )
    return f"{safe(docid)} <span style='{_QUIET}'>{safe(places)}</span>"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
