"""Pack what dynamic language models are trained on: texts, and answers that quote, as subwords.

    python -m benchmarks.generation.pack [--data ../shared/data] [--base FOLDER] [--files 2]

Texts are the training articles of Wikipedia in chunks of 512 subwords, with eight related chunks
each (for forward maximum matching): benchmarks/.cache/generation/texts-N.bin, and valid.bin of the
validation articles. Quotations are made of squad-train-slice's and medquad's training questions
and of some of each source in text/reading with BM25 neighbours, and of sentences rebuilt from other
passages of the training articles: quotes.bin, and quotes-valid.bin for two in a hundred documents.
Nothing of any dev or test set is read. Files stay below 14 MB, so that they can be carried to
another machine.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
from numpy.typing import NDArray

from benchmarks.generation.pieces import cut_pieces as cut_pieces
from benchmarks.generation.pieces import is_held_out as is_held_out
from benchmarks.generation.pieces import read_articles as read_articles
from benchmarks.generation.pieces import read_lines as read_lines
from benchmarks.generation.pieces import read_pairs as read_pairs
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.inputs import DynamicLMInputs
from quoth.models.pretrained import load_tokenizer
from quoth.selfsupervision.phrase_matching import SubwordText
from quoth.selfsupervision.phrase_sampling import SubwordKinds, as_subwords
from quoth.text.blocks import split_sentences
from quoth.text.words import Analyser, AnalyserConfig
from quoth.training.quoting.quote_writer import (
    CoverRecord,
    QuoteRecord,
    QuoteWriter,
)
from quoth.training.quoting.quoting_config import QuotingConfig
from quoth.training.quoting.set import (
    DynamicSet,
    Quotation,
    make_quotations,
    make_table,
    save_dynamic_set,
)

CACHE = Path("benchmarks/.cache/generation")
BASE = Path("benchmarks/.cache/smollm2/SmolLM2-135M-Instruct")
CHUNK, SUPPORT, QUERY_SUBWORDS = 512, 8, 24
FILE_BYTES = 11_500_000
COPYRIGHTED = ("ADAM", "MPlusDrugs", "MPlusHerbsSuppls")
MAX_POSITIONS = 8192
READING = (
    "squadshifts_new_wiki",
    "squadshifts_amazon",
    "squadshifts_reddit",
    "squad_train_pieces",
    "sleepqa",
    "timeqa_human",
    "tweetqa_train",
    "friendsqa",
    "iirc_ni",
)
_ANALYSER = Analyser(AnalyserConfig())

Asked = tuple[str, tuple[str, ...], str]
"""A question, its answers, and the document that holds them."""


@dataclass(frozen=True)
class Piece:
    """A passage, and the document it is cut from."""

    docid: str
    title: str
    text: str


def main() -> None:
    """Read, tokenise and pack."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--base", type=Path, default=BASE, help="folder of the language model")
    parser.add_argument("--out", type=Path, default=CACHE)
    parser.add_argument("--files", type=int, default=2, help="files of texts")
    parser.add_argument("--bytes", type=int, default=FILE_BYTES, help="most bytes of a file's ids")
    parser.add_argument("--medquad", type=int, default=3000, help="questions of medquad")
    parser.add_argument("--reading", type=int, default=1500, help="questions of a reading source")
    parser.add_argument("--covers", type=int, default=8000, help="sentences tried to be rebuilt")
    parser.add_argument(
        "--support", type=int, default=SUPPORT, help="related chunks of each, which FMM looks into"
    )
    parser.add_argument("--only", choices=("texts", "quotes"), default=None)
    given = parser.parse_args()
    inputs = DynamicLMInputs(
        load_tokenizer(given.base),
        DynamicLMConfig(max_prompt_subwords=1280),
        max_positions=MAX_POSITIONS,
    )
    articles = list(read_articles(given.data / "text" / "lm_train.jsonl.zst"))
    order = np.random.default_rng(0).permutation(len(articles)).tolist()
    packer = Packer(inputs, given.out, support=given.support)
    if given.only != "quotes":
        valid = read_lines(given.data / "text" / "lm_valid.jsonl.gz")
        packer.pack_texts([str(row["text"]) for row in valid], "valid")
        texts = [str(articles[at]["text"]) for at in order]
        pack_text_files(packer, texts, files=given.files, most=given.bytes)
    if given.only != "texts":
        writer = QuoteWriter(inputs, QuotingConfig())
        records = make_records(*squad_questions(given.data / "ir" / "squad-train-slice"))
        records += medquad_records(given.data / "ir" / "medquad", count=given.medquad)
        records += reading_records(given.data / "text" / "reading", count=given.reading)
        covers = cover_records([articles[at] for at in order[:1500]], count=given.covers)
        packer.pack_quotes(writer, records, covers)


class Packer:
    """Writes training sets for one tokenizer."""

    def __init__(self, inputs: DynamicLMInputs, out: Path, *, support: int = SUPPORT) -> None:
        self._inputs = inputs
        self._out = out
        self._support = support
        vocabulary = range(inputs.tokenizer.get_vocab_size())
        self._kinds = SubwordKinds.of([inputs.tokenizer.decode([each]) for each in vocabulary])

    def chunks(self, texts: Sequence[str]) -> list[SubwordText]:
        """Cut texts into chunks of 512 subwords; shorter ends of 64 or more are kept."""
        found = []
        for text, tokenised in zip(texts, self._inputs.tokenise_all(texts), strict=True):
            whole = as_subwords(text, tokenised)
            for start in range(0, len(whole.subword_ids), CHUNK):
                own = slice(start, start + CHUNK)
                if len(whole.subword_ids[own]) >= CHUNK // 8:
                    found.append(SubwordText(whole.subword_ids[own], whole.word_starts[own]))
        return found

    def pack_texts(self, texts: Sequence[str], name: str) -> None:
        """Pack texts with their related chunks."""
        chunks = self.chunks(texts)
        related = find_related(chunks, count=self._support)
        self._save(name, chunks, related, [], {"articles": len(texts)})

    def pack_quotes(
        self, writer: QuoteWriter, records: list[QuoteRecord], covers: list[CoverRecord]
    ) -> None:
        """Pack quotations, those of held-out passages apart."""
        for name, held_out in (("quotes", False), ("quotes-valid", True)):
            own = [each for each in records if is_held_out(each.passage) == held_out]
            answers = list(writer.answer(own))
            rebuilt = list(
                writer.cover([each for each in covers if is_held_out(each.sentence) == held_out])
            )
            refused = sum(not each.is_answerable for each in answers)
            counts = {"answers": len(answers), "refusals": refused, "rebuilt": len(rebuilt)}
            no_rows = np.zeros((0, SUPPORT), dtype=np.int64)
            mixed = [*answers, *rebuilt]
            shuffled = np.random.default_rng(1).permutation(len(mixed))
            self._save(name, [], no_rows, [mixed[at] for at in shuffled], counts)

    def _save(
        self,
        name: str,
        chunks: Sequence[SubwordText],
        related: NDArray[np.int64],
        quotations: Sequence[Quotation],
        counts: dict[str, int],
    ) -> None:
        about = {"name": name, "config": asdict(DynamicLMConfig()), **counts}
        path = self._out / f"{name}.bin"
        packed = DynamicSet(
            make_table(chunks),
            related,
            make_quotations(quotations),
            self._kinds.is_punctuation,
            self._kinds.opens_word,
            about=about,
        )
        save_dynamic_set(path, packed)
        subwords = int(packed.texts.lengths.sum() + packed.quotations.lengths.sum())
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, {subwords:,} subwords, {counts}")


def pack_text_files(packer: Packer, texts: Sequence[str], *, files: int, most: int) -> None:
    """Fill files one after the other; what an article takes is measured on the first hundred."""
    sample = np.concatenate([each.subword_ids for each in packer.chunks(texts[:100])])
    packed = len(zlib.compress(sample.astype(np.uint16).tobytes(), 6))
    per_character = packed / sum(map(len, texts[:100]))
    at = 0
    for number in range(files):
        room, first = most, at
        while at < len(texts) and room > 0:
            room -= per_character * len(texts[at])
            at += 1
        packer.pack_texts(texts[first:at], f"texts-{number}")


def find_related(
    chunks: Sequence[SubwordText], *, count: int = SUPPORT
) -> NDArray[np.int64]:  # (N, K)
    """Find the chunks nearest to each chunk by BM25 on its rarest subwords, itself left out."""
    related = np.full((len(chunks), count), -1, dtype=np.int64)
    if not count:
        return related
    own = [[str(each) for each in chunk.subword_ids.tolist()] for chunk in chunks]
    document_counts: dict[str, int] = {}
    for ids in own:
        for each in set(ids):
            document_counts[each] = document_counts.get(each, 0) + 1
    queries = [
        sorted(
            (each for each in set(ids) if document_counts[each] > 1),
            key=lambda each: (document_counts[each], each),
        )[:QUERY_SUBWORDS]
        for ids in own
    ]
    rows = search_rows(own, queries, k=min(count + 1, len(chunks)))
    for at, found in enumerate(rows.tolist()):
        others = [row for row in found if row != at][:count]
        related[at, : len(others)] = others
    return related


def squad_questions(folder: Path) -> tuple[list[Asked], list[Piece]]:
    """Read questions with the answers that stand in their passages."""
    answers = {row["_id"]: row for row in read_lines(folder / "queries.jsonl.gz")}
    questions = [
        (answers[qid]["text"], tuple(answers[qid]["answers"]), docid)
        for qid, docid in read_pairs(folder)
    ]
    return questions, read_pieces(folder)


def medquad_records(folder: Path, *, count: int) -> list[QuoteRecord]:
    """Read questions whose answer is the first statement of their document; neighbours are others'.

    Documents of the same disease may answer as well, so those of another title are taken.
    """
    rows = {row["_id"]: row for row in read_lines(folder / "corpus.jsonl.gz")}
    pieces = [each for each in read_pieces(folder) if rows[each.docid]["source"] not in COPYRIGHTED]
    text_by_qid = {row["_id"]: row["text"] for row in read_lines(folder / "queries.jsonl.gz")}
    first_by_docid: dict[str, Piece] = {}
    for piece in pieces:
        first_by_docid.setdefault(piece.docid, piece)
    pairs = [pair for pair in read_pairs(folder) if pair[1] in first_by_docid]
    chosen = np.random.default_rng(2).permutation(len(pairs))[:count]
    questions = []
    for qid, docid in (pairs[at] for at in chosen):
        answer = first_statement(first_by_docid[docid].text)
        if answer:
            questions.append((text_by_qid[qid], (answer,), docid))
    return make_records(questions, pieces, other_titles=True)


def reading_records(folder: Path, *, count: int) -> list[QuoteRecord]:
    """Read questions of other kinds, with passages that BM25 finds among those of their source."""
    records: list[QuoteRecord] = []
    for name in READING:
        questions, pieces = reading_questions(folder / f"{name}.jsonl.zst")
        chosen = np.random.default_rng(4).permutation(len(questions))[:count]
        records += make_records([questions[at] for at in chosen], pieces)
    return records


def reading_questions(path: Path) -> tuple[list[Asked], list[Piece]]:
    """Read the questions of one source, and the pieces of its passages."""
    rows = list(read_articles(path))
    docid_by_text = {row["passage"]: str(at) for at, row in enumerate(rows)}
    pieces = [
        Piece(docid, "", piece)
        for text, docid in docid_by_text.items()
        for piece in cut_pieces(text)
    ]
    questions = [
        (row["question"], tuple(row["answers"]), docid_by_text[row["passage"]]) for row in rows
    ]
    return questions, pieces


def first_statement(text: str) -> str:
    """Find the first sentence that is neither a question nor a list, without its stop.

    >>> first_statement("What is it? It is a rare disease of owls.")
    'It is a rare disease of owls'
    """
    for span in split_sentences(text):
        sentence = text[span.start : span.end]
        if 5 <= len(sentence.split()) <= 50 and sentence.endswith(".") and " - " not in sentence:
            return "" if "resources" in sentence else sentence.rstrip(".")
    return ""


def make_records(
    questions: Sequence[Asked],
    pieces: Sequence[Piece],
    *,
    other_titles: bool = False,
) -> list[QuoteRecord]:
    """Join questions with the piece that holds the answer, and with BM25 neighbours."""
    terms = [_ANALYSER.terms(f"{each.title} {each.text}") for each in pieces]
    rows = search_rows(terms, [_ANALYSER.terms(each[0]) for each in questions], k=20)
    pieces_by_docid: dict[str, list[Piece]] = {}
    for piece in pieces:
        pieces_by_docid.setdefault(piece.docid, []).append(piece)
    records = []
    for (question, answers, docid), found in zip(questions, rows.tolist(), strict=True):
        own = pieces_by_docid[docid]
        right = next((p for p in own if any(answer in p.text for answer in answers)), None)
        if right is None:
            continue
        near = [pieces[row] for row in found if pieces[row].docid != docid]
        if other_titles:
            near = [each for each in near if each.title != right.title]
        records.append(
            QuoteRecord(question, answers, right.text, tuple(each.text for each in near[:10]))
        )
    return records


def cover_records(articles: Sequence[dict[str, Any]], *, count: int) -> list[CoverRecord]:
    """Draw sentences of articles, with the passages of others that are nearest to them."""
    pieces = [
        Piece(str(row["id"]), row["title"], text)
        for row in articles
        for text in cut_pieces(row["text"])[:8]
    ]
    sentences = [
        (row, piece.text[span.start : span.end])
        for row, piece in enumerate(pieces)
        for span in split_sentences(piece.text)
        if 8 <= len(piece.text[span.start : span.end].split()) <= 40
    ]
    chosen = np.random.default_rng(3).permutation(len(sentences))[:count]
    drawn = [sentences[at] for at in chosen]
    terms = [_ANALYSER.terms(each.text) for each in pieces]
    rows = search_rows(terms, [_ANALYSER.terms(text) for _row, text in drawn], k=6)
    return [
        CoverRecord(
            pieces[own].title, text, tuple(pieces[row].text for row in found if row != own)[:4]
        )
        for (own, text), found in zip(drawn, rows.tolist(), strict=True)
    ]


def search_rows(
    texts: Sequence[Sequence[str]], queries: Sequence[Sequence[str]], *, k: int
) -> NDArray[np.int64]:  # (queries, k)
    """Search texts by BM25."""
    backend = "numba" if len(queries) > 1_000 else "numpy"  # compiling takes half a minute
    model = bm25s.BM25(k1=1.2, b=0.75, method="lucene", backend=backend)
    model.index([list(each) for each in texts], show_progress=False)
    rows, _scores = model.retrieve(
        [list(each) for each in queries], k=min(k, len(texts)), show_progress=False
    )
    return np.asarray(rows, dtype=np.int64)


def read_pieces(folder: Path) -> list[Piece]:
    """Cut the documents of a collection into passages."""
    return [
        Piece(row["_id"], row.get("title", ""), text)
        for row in read_lines(folder / "corpus.jsonl.gz")
        for text in cut_pieces(row["text"])
    ]


if __name__ == "__main__":
    main()
