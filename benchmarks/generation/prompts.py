"""Pack what the generation benchmark continues: prefixes, references, and retrieved documents.

    python -m benchmarks.generation.prompts [--domains wikipedia,wikitext,eurlex] [--count 400]

A prompt is the first 32 of 160 subwords of a held-out text, its reference the other 128. Documents
are stretches of 128 words, found by Quoth's BM25 with the prefix as the query: for *wikipedia*
(lm_test) and *wikitext* (WikiText's test articles, spacing restored, `<unk>` kept as text) among
the training articles, for *eurlex* (every fifth act) among the other acts. Only subwords travel:
the machine that generates needs no tantivy. Writes benchmarks/.cache/generation/DOMAIN.bin.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quoth.selfsupervision.phrase_matching import SubwordText
from quoth.training.packed_file import read_packed, write_packed
from quoth.training.quoting.set import SubwordTable, make_table

CACHE = Path("benchmarks/.cache/generation")
BASE = Path("benchmarks/.cache/smollm2/SmolLM2-135M-Instruct")
DOMAINS = ("wikipedia", "wikitext", "eurlex")
PREFIX, CONTINUATION, DOCUMENTS, DOCUMENT_WORDS = 32, 128, 32, 128

_KIND, _VERSION = "generation-prompts", 1
_HEADING = re.compile(r" (= )+[^=]+ (= )+")
_NO_ROW = -1


@dataclass(frozen=True)
class PromptSet:
    """Prompts of one domain; documents that several prompts found are stored once."""

    domain: str
    prefixes: NDArray[np.int64]  # (N, 32)
    references: NDArray[np.int64]  # (N, 128)
    documents: SubwordTable
    document_rows: NDArray[np.int64]  # (N, K), best first; -1 where there are fewer

    def __len__(self) -> int:
        return len(self.prefixes)

    def own_documents(self, row: int) -> list[SubwordText]:
        """Return the documents found for a prompt."""
        return [self.documents[int(each)] for each in self.document_rows[row] if each != _NO_ROW]


def main() -> None:
    """Pack the domains that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/text"))
    parser.add_argument("--base", type=Path, default=BASE, help="folder of the language model")
    parser.add_argument("--domains", default=",".join(DOMAINS))
    parser.add_argument("--count", type=int, default=400, help="prompts per domain")
    parser.add_argument("--documents", type=int, default=DOCUMENTS, help="found for a prompt")
    parser.add_argument("--articles", type=int, default=0, help="articles searched; 0 for all")
    parser.add_argument("--out", type=Path, default=CACHE)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for name in given.domains.split(","):
        pack(name, given)


def pack(name: str, given: argparse.Namespace) -> None:
    """Write the prompts of one domain."""
    from quoth.models.dynamic_lm.config import DynamicLMConfig
    from quoth.models.dynamic_lm.inputs import DynamicLMInputs
    from quoth.models.pretrained import load_tokenizer

    inputs = DynamicLMInputs(load_tokenizer(given.base), DynamicLMConfig(), max_positions=2048)
    stretches = [each for text in held_out(name, given.data) for each in cut(text, inputs)]
    order = np.random.default_rng(0).permutation(len(stretches))[: given.count]
    chosen = np.array([stretches[at] for at in np.sort(order)], dtype=np.int64)
    prefixes = chosen[:, :PREFIX]
    found = search(
        [inputs.text(row.tolist()) for row in prefixes],
        stretches_of_words(corpus(name, given.data, given.articles)),
        k=given.documents,
    )
    row_by_text = {text: row for row, text in enumerate(dict.fromkeys(t for f in found for t in f))}
    rows = np.full((len(found), given.documents), _NO_ROW, dtype=np.int64)
    for at, texts in enumerate(found):
        rows[at, : len(texts)] = [row_by_text[text] for text in texts]
    documents = make_table([read_subwords(text, inputs) for text in row_by_text])
    prompts = PromptSet(name, prefixes, chosen[:, PREFIX:], documents, rows)
    path = given.out / f"{name}.bin"
    save_prompts(path, prompts)
    logging.info(
        "%s: %d of %d stretches, %d documents of %.0f subwords, %.1f MB",
        *(name, len(prompts), len(stretches), len(documents), documents.lengths.mean()),
        path.stat().st_size / 1e6,
    )


def save_prompts(path: Path, prompts: PromptSet) -> None:
    """Write prompts as one file."""
    kind = prompts.documents.subword_ids.dtype
    arrays = {
        "prefixes": prompts.prefixes.astype(np.int32),
        "references": prompts.references.astype(np.int32),
        "ids": prompts.documents.subword_ids.astype(kind),
        "starts": np.packbits(prompts.documents.word_starts),
        "lengths": prompts.documents.lengths.astype(np.int32),
        "document_rows": prompts.document_rows.astype(np.int32),
    }
    write_packed(path, arrays, kind=_KIND, facts={"version": _VERSION, "domain": prompts.domain})


def open_prompts(path: Path) -> PromptSet:
    """Read prompts, checking every byte."""
    arrays, header = read_packed(path, kind=_KIND, expected={"version": _VERSION})
    starts = np.unpackbits(arrays["starts"], count=len(arrays["ids"])).astype(np.bool_)
    offsets = np.concatenate(([0], np.cumsum(arrays["lengths"], dtype=np.int64)))
    return PromptSet(
        header["domain"],
        arrays["prefixes"].astype(np.int64),
        arrays["references"].astype(np.int64),
        SubwordTable(arrays["ids"], starts, offsets),
        arrays["document_rows"].astype(np.int64),
    )


def read_subwords(text: str, inputs: object) -> SubwordText:
    """Tokenise a text, and mark where words begin."""
    from quoth.selfsupervision.phrase_sampling import word_starts

    read = inputs.tokenise(text)  # type: ignore[attr-defined]
    spans = list(zip(read.starts, read.ends, strict=True))
    return SubwordText(np.array(read.subword_ids, dtype=np.int64), word_starts(text, spans))


def cut(text: str, inputs: object) -> Iterator[NDArray[np.int64]]:
    """Cut a text into stretches of 160 subwords, each from the beginning of a word."""
    read = read_subwords(text, inputs)
    starts = np.flatnonzero(read.word_starts)
    at = 0
    while at + PREFIX + CONTINUATION <= len(read.subword_ids):
        yield read.subword_ids[at : at + PREFIX + CONTINUATION]
        later = starts[np.searchsorted(starts, at + PREFIX + CONTINUATION) :]
        at = int(later[0]) if len(later) else len(read.subword_ids)


def search(
    queries: Sequence[str], documents: Iterable[str], *, k: int = DOCUMENTS
) -> list[list[str]]:
    """Find the best documents of each query with Quoth's BM25."""
    from quoth.engine.engine import Engine
    from quoth.records import Document, Query

    texts = list(dict.fromkeys(documents))
    words = [" ".join(re.findall(r"\w+", query)) for query in queries]
    with tempfile.TemporaryDirectory() as scratch, Engine.open(Path(scratch) / "c.quoth") as engine:
        engine.add_documents(Document(str(at), {"text": (text,)}) for at, text in enumerate(texts))
        asked = [Query(str(at), text) for at, text in enumerate(words)]
        hits = engine.run(asked, k=k, searcher="lexical").hits
    return [[texts[int(hit.docid)] for hit in hits[query.qid]] for query in asked]


def held_out(name: str, data: Path) -> Iterator[str]:
    """Yield the texts that prompts are cut from."""
    if name == "wikipedia":
        yield from (record["text"] for record in _records(data / "lm_test.jsonl.gz"))
    elif name == "wikitext":
        yield from articles(data / "wikitext_eval" / "test.txt.gz")
    else:
        acts = _records(data / "eurlex_acts.jsonl.gz")
        yield from (act["text"] for at, act in enumerate(acts) if at % 5 == 0)


def corpus(name: str, data: Path, most: int) -> Iterator[str]:
    """Yield the texts that documents are cut from, none of which is held out."""
    if name == "eurlex":
        acts = _records(data / "eurlex_acts.jsonl.gz")
        yield from (act["text"] for at, act in enumerate(acts) if at % 5)
        return
    command = ["zstd", "-dc", "--long=27", str(data / "lm_train.jsonl.zst")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for at, line in enumerate(process.stdout):
            if not most or at < most:
                yield json.loads(line)["text"]


def stretches_of_words(texts: Iterable[str]) -> Iterator[str]:
    """Cut texts into documents of 128 words, with their spacing; tails under 16 words are left."""
    for text in texts:
        words = list(re.finditer(r"\S+", text))
        for start in range(0, len(words), DOCUMENT_WORDS):
            own = words[start : start + DOCUMENT_WORDS]
            if len(own) >= 16:
                yield text[own[0].start() : own[-1].end()]


def articles(path: Path) -> Iterator[str]:
    """Yield WikiText's articles without headings, spaced as people write."""
    lines: list[str] = []
    with gzip.open(path, "rt") as stream:
        for line in stream:
            if re.fullmatch(r" = [^=]+ = \n", line) and lines:
                yield "\n".join(lines)
                lines = []
            if line.strip() and not _HEADING.match(line):
                lines.append(respace(line.strip()))
    if lines:
        yield "\n".join(lines)


def respace(text: str) -> str:
    """Undo the spacing of WikiText.

    >>> respace('He said , " it \\'s a 3 @-@ 1 win ( 2 @,@ 000 fans ) . "')
    'He said, "it\\'s a 3-1 win (2,000 fans)."'
    """
    text = re.sub(r" @(\W)@ ", r"\1", text)
    text = re.sub(r'" ([^"]*?) ?"', r'"\1"', text)
    text = re.sub(r" ([,.;:!?)\]%]|'s\b|n't\b|'(?:re|ve|ll|d|m)\b)", r"\1", text)
    return re.sub(r"([(\[$£]) ", r"\1", text)


def _records(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt") as stream:
        yield from map(json.loads, stream)


if __name__ == "__main__":
    main()
