"""Read and write queries, qrels and runs in the formats that other tools use, plain or gzipped.

Queries: BEIR JSONL (`{"_id": …, "text": …}`) or TSV (`qid<TAB>text`, no header). Qrels: BEIR TSV
(with its header) or TREC (`qid 0 docid grade`). Runs: TREC (`qid Q0 docid rank score tag`). Which
one a file holds is seen from its first line; gzip is recognised by content, and demanded of names
in .gz.

In the TREC formats qids, docids and run names are percent-encoded where they hold white space or
"%" (`escape.py`). Runs are written with strictly decreasing scores (`strict_scores.py`), and read
as trec_eval reads them: by descending score, ties by descending docid, the rank column ignored.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from quoth.errors import EvaluationError
from quoth.evaluation.escape import escape, unescape
from quoth.evaluation.lines import Malformed, numbered_lines, shorten, take_lines, write_lines
from quoth.evaluation.strict_scores import LARGEST_SCORE, strictly_decreasing
from quoth.records import Hit, Qrels, Query, Run

MAX_GRADE = 1_000_000
"""Larger grades are refused: trec_eval reserves memory in proportion to them."""

_QID_KEYS = ("_id", "id", "qid")
_BEIR_HEADER = ("query-id", "corpus-id", "score")
_BLANKS = re.compile(
    r"[ \t\v\f\r]+"
)  # what C calls white space; a no-break space is part of a docid
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")

Judgement = tuple[str, str, int]


def read_queries(path: Path) -> tuple[Query, ...]:
    """Read queries in the order of the file; a qid may appear once."""
    query_by_qid: dict[str, Query] = {}
    lines = numbered_lines(path)
    first = next(lines, None)
    if first is None:
        raise EvaluationError(f"{path} holds no queries")
    parse = _parse_json_query if first[1].lstrip().startswith(b"{") else _parse_tsv_query

    def take(line: str) -> None:
        query = parse(line)
        if query.qid in query_by_qid:
            raise Malformed(f"query {shorten(query.qid)} appears a second time")
        query_by_qid[query.qid] = query

    take_lines(path, chain([first], lines), take)
    return tuple(query_by_qid.values())


def read_qrels(path: Path) -> Qrels:
    """Read judged relevance; a judgement may be repeated, but not with another grade."""
    grades: dict[str, dict[str, int]] = {}
    lines = numbered_lines(path)
    first = next(lines, None)
    if first is None:
        raise EvaluationError(f"{path} holds no judgements")
    has_header = _is_beir_header(first[1])
    parse = _parse_beir_judgement if has_header else _parse_trec_judgement

    def take(line: str) -> None:
        qid, docid, grade = parse(line)
        known = grades.setdefault(qid, {}).setdefault(docid, grade)
        if known != grade:
            pair = f"query {shorten(qid)} and document {shorten(docid)}"
            raise Malformed(f"{pair} are graded {grade} here and {known} before")

    take_lines(path, lines if has_header else chain([first], lines), take)
    if not grades:
        raise EvaluationError(f"{path} holds no judgements")
    return Qrels(grades)


def read_run(path: Path) -> Run:
    """Read a run named by the tag of its first line, or by its file if there are no lines."""
    tags: dict[str, None] = {}
    score_by_docid: dict[str, dict[str, float]] = {}

    def take(line: str) -> None:
        qid, docid, score, tag = _parse_trec_hit(line)
        scores = score_by_docid.setdefault(qid, {})
        if docid in scores:
            raise Malformed(f"document {shorten(docid)} appears again for query {shorten(qid)}")
        scores[docid] = score
        tags[tag] = None

    take_lines(path, numbered_lines(path), take)
    name = next(iter(tags), path.name.removesuffix(".gz"))
    return Run(name, {qid: _sorted_hits(scores) for qid, scores in score_by_docid.items()})


def write_run(run: Run, path: Path) -> None:
    """Write a run so that every tool reads back the order of its hits.

    Where scores tie, or are too close for single precision, the lower hit is written with the next
    smaller single- precision number. A query without hits leaves no line; passages are not written.
    """
    write_lines(path, _run_lines(run))


def _parse_json_query(line: str) -> Query:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON ({error})") from error
    if not isinstance(value, dict):
        raise Malformed(
            f'expected an object such as {{"_id": "1", "text": "…"}}, found {shorten(line)}'
        )
    key = next((key for key in _QID_KEYS if key in value), None)
    if key is None:
        raise Malformed(f"no key: expected one of {', '.join(_QID_KEYS)}")
    return Query(_json_qid(key, value[key]), _json_text(value.get("text")))


def _json_qid(key: str, value: object) -> str:
    """Take a string, or a whole number as some collections have it, that is not empty."""
    if not isinstance(value, str | int) or isinstance(value, bool) or value == "":
        found = "empty" if value == "" else f"a {type(value).__name__}"
        raise Malformed(f"{key} is {found}; expected a string that is not empty")
    return _checked_text(key, str(value))


def _json_text(value: object) -> str:
    if not isinstance(value, str):
        raise Malformed("text is missing or not a string")
    return _checked_text("text", value)


def _checked_text(name: str, text: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise Malformed(f"{name} holds half of a surrogate pair, which is not text")
    return text


def _parse_tsv_query(line: str) -> Query:
    qid, tab, text = line.partition("\t")
    if not tab or not qid.strip():
        raise Malformed(f"expected qid<TAB>text, found {shorten(line)}")
    return Query(qid.strip(), text.strip())


def _is_beir_header(line: bytes) -> bool:
    cells = line.decode("utf-8", "replace").lower().split("\t")
    return tuple(cell.strip() for cell in cells) == _BEIR_HEADER


def _parse_beir_judgement(line: str) -> Judgement:
    cells = [cell.strip() for cell in line.split("\t")]
    if len(cells) != 3 or not all(cells):
        raise Malformed(f"expected qid<TAB>docid<TAB>grade, found {shorten(line)}")
    return cells[0], cells[1], _parse_grade(cells[2])


def _parse_trec_judgement(line: str) -> Judgement:
    columns = _columns(line)
    if len(columns) != 4:
        header = "<TAB>".join(_BEIR_HEADER)
        raise Malformed(
            f'expected "qid 0 docid grade" (or {header} as first line), found {shorten(line)}'
        )
    return unescape(columns[0]), unescape(columns[2]), _parse_grade(columns[3])


def _parse_grade(text: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(text) or abs(int(text)) > MAX_GRADE:
        raise Malformed(
            f"the grade {shorten(text)} is not a whole number from -{MAX_GRADE} to {MAX_GRADE}"
        )
    return int(text)


def _parse_trec_hit(line: str) -> tuple[str, str, float, str]:
    columns = _columns(line)
    if len(columns) != 6:
        raise Malformed(f'expected "qid Q0 docid rank score tag", found {shorten(line)}')
    qid, _, docid, _, score, tag = columns
    return unescape(qid), unescape(docid), _parse_score(score), unescape(tag)


def _parse_score(text: str) -> float:
    try:
        score = float(text)
    except ValueError as error:
        raise Malformed(f"the score {shorten(text)} is not a number") from error
    if not math.isfinite(score):
        raise Malformed(f"the score {shorten(text)} is not finite")
    return score


def _columns(line: str) -> list[str]:
    """Split at white space.

    >>> _columns(" q1  0\\tnotes/a.md 1")
    ['q1', '0', 'notes/a.md', '1']
    """
    return [column for column in _BLANKS.split(line) if column]


def _sorted_hits(score_by_docid: dict[str, float]) -> tuple[Hit, ...]:
    """Rank as trec_eval does.

    >>> [hit.docid for hit in _sorted_hits({"a": 1.0, "b": 1.0, "c": 2.0})]
    ['c', 'b', 'a']
    """
    pairs = ((score, docid) for docid, score in score_by_docid.items())
    return tuple(Hit(docid, score) for score, docid in sorted(pairs, reverse=True))


def _run_lines(run: Run) -> Iterator[str]:
    tag = _word("run name", run.name)
    for qid, hits in run.hits.items():
        _check_hits(qid, hits)
        word = _word("qid", qid)
        scores = strictly_decreasing(hit.score for hit in hits)
        for rank, (hit, score) in enumerate(zip(hits, scores, strict=True), start=1):
            yield f"{word} Q0 {_word('docid', hit.docid)} {rank} {score!r} {tag}"


def _check_hits(qid: str, hits: tuple[Hit, ...]) -> None:
    """Refuse what would not read back: a document ranked twice, a score no tool can hold."""
    docids: set[str] = set()
    for hit in hits:
        if hit.docid in docids:
            raise EvaluationError(f"query {qid!r} has the document {hit.docid!r} twice")
        docids.add(hit.docid)
        if not abs(hit.score) <= LARGEST_SCORE:  # also false for NaN
            raise EvaluationError(
                f"query {qid!r} has the document {hit.docid!r} with the score {hit.score}; "
                f"a run file holds numbers from -{LARGEST_SCORE:g} to {LARGEST_SCORE:g}"
            )


def _word(kind: str, key: str) -> str:
    if not key:
        raise EvaluationError(f"a {kind} is empty; the TREC formats have no way to write that")
    return escape(key)
