"""Queries, qrels and runs: read, written, refused."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.errors import EvaluationError
from quoth.evaluation.files import read_qrels, read_queries, read_run, write_run
from quoth.evaluation.strict_scores import LARGEST_SCORE
from quoth.records import Hit, Qrels, Query, Run

CRANFIELD = Path(__file__).parents[4] / "shared/data/ir/cranfield"
READERS = [read_queries, read_qrels, read_run]

KEYS = st.text(st.characters(), min_size=1, max_size=8)
HITS = st.lists(
    st.builds(
        Hit, KEYS, st.floats(-LARGEST_SCORE / 10, LARGEST_SCORE / 10) | st.sampled_from([0.0, 1.0])
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda hit: hit.docid,
).map(tuple)
RUNS = st.builds(Run, KEYS, st.dictionaries(KEYS, HITS, min_size=1, max_size=4))
QRELS = st.builds(
    Qrels,
    st.dictionaries(
        KEYS, st.dictionaries(KEYS, st.integers(-2, 5), min_size=1), min_size=1, max_size=4
    ),
)


def write(folder: Path, text: str, name: str = "input") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def message_of(reader: Callable[[Path], object], path: Path) -> str:
    with pytest.raises(EvaluationError) as caught:
        reader(path)
    return str(caught.value)


class TestQueries:
    def test_beir_jsonl(self, tmp_path: Path) -> None:
        path = write(tmp_path, '{"_id": "1", "text": "a b"}\n\n{"_id": 2, "text": "ü\\t"}\r\n')
        assert read_queries(path) == (Query("1", "a b"), Query("2", "ü\t"))

    @pytest.mark.parametrize("key", ["_id", "id", "qid"])
    def test_names_of_the_key(self, tmp_path: Path, key: str) -> None:
        path = write(tmp_path, f'{{"{key}": "x", "text": "t", "metadata": {{}}}}')
        assert read_queries(path) == (Query("x", "t"),)

    def test_tsv(self, tmp_path: Path) -> None:
        path = write(tmp_path, "1\ta b\n2\tc\td\u2028e\n")
        assert read_queries(path) == (Query("1", "a b"), Query("2", "c\td\u2028e"))

    def test_byte_order_mark(self, tmp_path: Path) -> None:
        assert read_queries(write(tmp_path, "\ufeff1\ta\n")) == (Query("1", "a"),)

    @pytest.mark.parametrize("name", ["queries.tsv.gz", "queries.tsv"])
    def test_gzip_by_ending_or_by_content(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / name
        path.write_bytes(gzip.compress(b"1\ta\n"))
        assert read_queries(path) == (Query("1", "a"),)

    def test_problems_are_listed_with_their_lines(self, tmp_path: Path) -> None:
        path = write(
            tmp_path,
            '{"_id": "1", "text": "a"}\n{"_id": "1", "text": "b"}\n{"text": "c"}\n{"_id": "2"}\n{',
        )
        lines = message_of(read_queries, path).splitlines()
        assert lines[:3] == [
            f"{path}:2: query '1' appears a second time",
            f"{path}:3: no key: expected one of _id, id, qid",
            f"{path}:4: text is missing or not a string",
        ]
        assert lines[3].startswith(f"{path}:5: not JSON")

    def test_at_most_five_problems(self, tmp_path: Path) -> None:
        message = message_of(read_queries, write(tmp_path, "no tab\n" * 9))
        assert message.count("expected qid<TAB>text, found 'no tab'") == 5
        assert ":5:" in message and ":6:" not in message
        assert message.endswith("(reading stopped here)")

    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ('{"_id": "", "text": "a"}', "_id is empty"),
            ('{"_id": true, "text": "a"}', "_id is a bool"),
            ('{"_id": [], "text": "a"}', "_id is a list"),
            ('{"_id": "1", "text": "\\ud800"}', "text holds half of a surrogate pair"),
            ('{"_id": "1", "text": 3}', "text is missing or not a string"),
            ('{"_id": ' + "[" * 10_000, "not JSON"),
        ],
    )
    def test_malformed(self, tmp_path: Path, line: str, expected: str) -> None:
        assert f"input:1: {expected}" in message_of(read_queries, write(tmp_path, line))

    def test_a_list_among_objects(self, tmp_path: Path) -> None:
        path = write(tmp_path, '{"_id": "1", "text": "a"}\n[1]')
        assert "input:2: expected an object" in message_of(read_queries, path)

    def test_not_utf8(self, tmp_path: Path) -> None:
        path = tmp_path / "input"
        path.write_bytes(b"1\ta\n2\t\xff\n")
        assert "input:2: not UTF-8 text" in message_of(read_queries, path)


class TestQrels:
    def test_beir(self, tmp_path: Path) -> None:
        path = write(tmp_path, "query-id\tcorpus-id\tscore\n1\td 1\t2\n1\td2\t0\n2\td1\t1\n")
        assert read_qrels(path) == Qrels({"1": {"d 1": 2, "d2": 0}, "2": {"d1": 1}})

    def test_trec(self, tmp_path: Path) -> None:
        path = write(tmp_path, "1 0 d%201 2\n1\tQ0\thttp://a/%C3%A9\t-1\n")
        assert read_qrels(path) == Qrels({"1": {"d 1": 2, "http://a/%C3%A9": -1}})

    def test_repeated_judgements(self, tmp_path: Path) -> None:
        assert read_qrels(write(tmp_path, "1 0 d 2\n1 0 d 2\n")) == Qrels({"1": {"d": 2}})
        path = write(tmp_path, "1 0 d 2\n1 0 d 3\n")
        expected = f"{path}:2: query '1' and document 'd' are graded 3 here and 2 before"
        assert message_of(read_qrels, path) == expected

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("1 d 1", 'input:1: expected "qid 0 docid grade" (or query-id<TAB>corpus-id<TAB>score'),
            ("1 0 d high", "input:1: the grade 'high' is not a whole number"),
            ("1 0 d 1.5", "input:1: the grade '1.5' is not a whole number"),
            ("1 0 d 1000001", "input:1: the grade '1000001' is not a whole number from"),
            ("1 0 d " + "9" * 5000, "input:1: the grade"),
            ("query-id\tcorpus-id\tscore\n\n1\td", "input:3: expected qid<TAB>docid<TAB>grade"),
            ("query-id\tcorpus-id\tscore\n", "input holds no judgements"),
        ],
    )
    def test_malformed(self, tmp_path: Path, text: str, expected: str) -> None:
        assert expected in message_of(read_qrels, write(tmp_path, text))


class TestRuns:
    def test_rank_is_ignored_and_ties_go_as_in_trec_eval(self, tmp_path: Path) -> None:
        path = write(tmp_path, "q Q0 a 1 1.0 bm25\nq Q0 b 2 1.0 bm25\nq Q0 c 3 2e0 bm25\n")
        run = read_run(path)
        assert run == Run("bm25", {"q": (Hit("c", 2.0), Hit("b", 1.0), Hit("a", 1.0))})

    def test_no_lines(self, tmp_path: Path) -> None:
        assert read_run(write(tmp_path, "", "glow.run")) == Run("glow.run", {})

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("q Q0 a 1 1.0", 'input:1: expected "qid Q0 docid rank score tag"'),
            ("q Q0 a 1 high r", "input:1: the score 'high' is not a number"),
            ("q Q0 a 1 nan r", "input:1: the score 'nan' is not finite"),
            ("q Q0 a 1 2 r\nq Q0 a 2 1 r", "input:2: document 'a' appears again for query 'q'"),
        ],
    )
    def test_malformed(self, tmp_path: Path, text: str, expected: str) -> None:
        assert expected in message_of(read_run, write(tmp_path, text))

    def test_what_is_written(self, tmp_path: Path) -> None:
        hits = (Hit("b 1", 2.0), Hit("a", 2.0), Hit("c", 0.5))
        write_run(Run("my run", {"q": hits}), tmp_path / "new" / "run.txt")
        assert (tmp_path / "new" / "run.txt").read_text().splitlines() == [
            "q Q0 b%201 1 2.0 my%20run",
            f"q Q0 a 2 {2.0 - 2**-23!r} my%20run",
            "q Q0 c 3 0.5 my%20run",
        ]

    @given(run=RUNS, name=st.sampled_from(["run.txt", "run.txt.gz"]))
    @settings(derandomize=True, deadline=None, max_examples=100)
    def test_round_trip(
        self, tmp_path_factory: pytest.TempPathFactory, run: Run, name: str
    ) -> None:
        path = tmp_path_factory.mktemp("run") / name
        write_run(run, path)
        back = read_run(path)
        assert back.name == run.name
        assert docids_of(back) == docids_of(run)
        write_run(back, path)
        assert read_run(path) == back  # written once, nothing more changes

    @given(run=RUNS)
    @settings(derandomize=True, deadline=None, max_examples=60)
    def test_trec_eval_sees_the_same_order(
        self, tmp_path_factory: pytest.TempPathFactory, run: Run
    ) -> None:
        reason = "ir-measures and pytrec_eval are not installed"
        pytest.importorskip("pytrec_eval", reason=reason)
        ir_measures = pytest.importorskip("ir_measures", reason=reason)
        path = tmp_path_factory.mktemp("run") / "run.txt"
        write_run(run, path)
        scored = list(ir_measures.read_trec_run(str(path)))
        for i, document in enumerate(scored):
            qrels = [ir_measures.Qrel(document.query_id, document.doc_id, 1)]
            rank = 1 + sum(earlier.query_id == document.query_id for earlier in scored[:i])
            value = ir_measures.calc_aggregate([ir_measures.RR], qrels, scored)[ir_measures.RR]
            assert value == pytest.approx(1 / rank)

    @pytest.mark.parametrize("score", [float("nan"), float("inf"), 1e39])
    def test_scores_no_tool_can_hold(self, tmp_path: Path, score: float) -> None:
        with pytest.raises(EvaluationError, match="query 'q' has the document 'a' with the score"):
            write_run(Run("r", {"q": (Hit("a", score),)}), tmp_path / "run.txt")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("run", "expected"),
        [
            (Run("", {"q": (Hit("a", 1.0),)}), "a run name is empty"),
            (Run("r", {"": (Hit("a", 1.0),)}), "a qid is empty"),
            (Run("r", {"q": (Hit("", 1.0),)}), "a docid is empty"),
            (Run("r", {"q": (Hit("a", 1.0), Hit("a", 0.5))}), "has the document 'a' twice"),
        ],
    )
    def test_unwritable(self, tmp_path: Path, run: Run, expected: str) -> None:
        with pytest.raises(EvaluationError, match=expected):
            write_run(run, tmp_path / "run.txt")

    def test_a_failure_leaves_the_old_file(self, tmp_path: Path) -> None:
        path = tmp_path / "run.txt"
        write_run(Run("r", {"q": (Hit("a", 1.0),)}), path)
        before = path.read_bytes()
        with pytest.raises(EvaluationError):
            write_run(Run("r", {"q": (Hit("b", 1.0), Hit("b", 1.0))}), path)
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]

    def test_the_same_run_gives_the_same_gzip_bytes(self, tmp_path: Path) -> None:
        for name in ("a.gz", "b.gz"):
            write_run(Run("r", {"q": (Hit("a", 1.0),)}), tmp_path / name)
        assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()

    def test_a_file_where_a_folder_should_be(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(EvaluationError, match="cannot write"):
            write_run(Run("r", {}), tmp_path / "file" / "run.txt")


def docids_of(run: Run) -> dict[str, list[str]]:
    return {qid: [hit.docid for hit in hits] for qid, hits in run.hits.items()}


@pytest.mark.parametrize("reader", READERS)
class TestUnreadable:
    def test_missing(self, tmp_path: Path, reader: Callable[[Path], object]) -> None:
        expected = f"cannot read {tmp_path / 'none'}: No such file or directory"
        assert message_of(reader, tmp_path / "none") == expected

    def test_folder(self, tmp_path: Path, reader: Callable[[Path], object]) -> None:
        assert "cannot read" in message_of(reader, tmp_path)

    def test_truncated_gzip(self, tmp_path: Path, reader: Callable[[Path], object]) -> None:
        path = tmp_path / "input.gz"
        path.write_bytes(gzip.compress(b"x" * 1000)[:-12])
        assert "input.gz: the gzip data is damaged" in message_of(reader, path)

    def test_gz_in_name_only(self, tmp_path: Path, reader: Callable[[Path], object]) -> None:
        assert "cannot read" in message_of(reader, write(tmp_path, "1 0 d 1\n", "input.gz"))

    @given(data=st.data())
    @settings(derandomize=True, deadline=None, max_examples=200)
    def test_arbitrary_bytes_raise_nothing_else(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        reader: Callable[[Path], object],
        data: st.DataObject,
    ) -> None:
        start = data.draw(
            st.sampled_from(
                [
                    b"",
                    b'{"_id":',
                    b"query-id\tcorpus-id\tscore\n",
                    b"1 0 d",
                    b"q Q0 d 1 ",
                    b"\x1f\x8b",
                ]
            )
        )
        content = start + data.draw(st.binary(max_size=200))
        path = tmp_path_factory.mktemp("fuzz") / data.draw(st.sampled_from(["a", "a.gz"]))
        zipped = data.draw(st.booleans())
        path.write_bytes(gzip.compress(content) if zipped else content)
        try:
            reader(path)
        except EvaluationError as error:
            assert str(path) in str(error)


def test_empty_queries_and_qrels_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "\n \n")
    assert message_of(read_queries, path) == f"{path} holds no queries"
    assert message_of(read_qrels, path) == f"{path} holds no judgements"


@pytest.mark.skipif(
    not CRANFIELD.exists(), reason=f"the Cranfield collection is not at {CRANFIELD}"
)
def test_cranfield() -> None:
    queries = read_queries(CRANFIELD / "queries.jsonl.gz")
    qrels = read_qrels(CRANFIELD / "qrels" / "test.tsv.gz")
    assert len(queries) == 225
    assert sum(map(len, qrels.grades.values())) == 1836
    assert {query.qid for query in queries} == qrels.grades.keys()
