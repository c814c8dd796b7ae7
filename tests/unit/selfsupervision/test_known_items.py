"""Known items: what is promised of any collection, then examples one can read."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.errors import ConfigError, EvaluationError
from quoth.records import Document, Passage, Query, Span
from quoth.selfsupervision.known_items import (
    ORIGINS,
    KnownItem,
    Stretch,
    find_copies,
    find_headings,
    find_sentences,
    hold_out,
    make_known_items,
)
from quoth.text.blocks import count_words
from quoth.text.words import Analyser, AnalyserConfig

ANALYSER = Analyser(AnalyserConfig(language="none"))
COMMON = ("the", "of", "and", "a", "in")


def make_sentence(generator: random.Random, num_words: int) -> str:
    """Write words of which about a third are common and the others hardly ever come again."""
    words = [
        generator.choice(COMMON) if generator.random() < 0.35 else f"w{generator.randrange(4000)}"
        for _ in range(num_words)
    ]
    return " ".join(words).capitalize() + "."


def make_document(docid: str, seed: int = 0) -> Document:
    generator = random.Random(f"{docid} {seed}")
    title = make_sentence(generator, 5).rstrip(".")
    blocks = [f"# {title}"]
    for _ in range(3):
        sentences = [make_sentence(generator, generator.randint(4, 30)) for _ in range(4)]
        blocks += ["## " + make_sentence(generator, 6).rstrip("."), " ".join(sentences)]
    return Document(docid, {"title": (title,), "text": ("\n\n".join(blocks),)}, {"year": 1845})


DOCUMENTS = [make_document(f"d{n}") for n in range(120)]


def make(documents: Sequence[Document], **changes: object) -> tuple[KnownItem, ...]:
    settings = {"analyser": ANALYSER, "count": 80, "seed": 0, **changes}
    return make_known_items(iter(documents), **settings)  # type: ignore[arg-type]


ITEMS = make(DOCUMENTS)
BY_DOCID = {document.docid: document for document in DOCUMENTS}


def texts_of(document: Document) -> list[str]:
    """List a document's texts with single spaces, as queries are written."""
    return [" ".join(text.split()) for texts in document.fields.values() for text in texts]


class TestPromises:
    def test_as_many_as_asked_and_even_over_the_origins(self) -> None:
        assert Counter(item.origin for item in ITEMS) == dict.fromkeys(ORIGINS, 80 // 4)

    def test_the_same_seed_gives_the_same_items_in_any_order_of_the_documents(self) -> None:
        shuffled = random.Random(1).sample(DOCUMENTS, len(DOCUMENTS))
        assert make(shuffled) == ITEMS
        assert make(DOCUMENTS, seed=1) != ITEMS

    def test_large_streams_are_sampled_in_any_order(self) -> None:
        many = [make_document(f"e{n}") for n in range(500)]
        items = make(many, count=40)
        assert make(many[::-1], count=40) == items
        assert len({item.docid for item in items}) == 40

    def test_qids_are_unique_and_documents_used_once_while_there_are_enough(self) -> None:
        assert len({item.query.qid for item in ITEMS}) == len(ITEMS)
        assert len({item.docid for item in ITEMS}) == len(ITEMS)

    def test_few_documents_give_one_item_of_each_origin(self) -> None:
        items = make(DOCUMENTS[:10], count=80)
        assert Counter(item.origin for item in items) == dict.fromkeys(ORIGINS, 10)
        assert len({item.query.qid for item in items}) == 40

    def test_held_out_passages_are_literal(self) -> None:
        for item in ITEMS:
            for passage in item.held_out:
                text = BY_DOCID[item.docid].fields[passage.field][passage.instance]
                assert text[passage.span.start : passage.span.end] == passage.text
                assert passage.docid == item.docid

    def test_held_out_text_is_gone_and_the_rest_stays(self) -> None:
        for item in ITEMS:
            document = BY_DOCID[item.docid]
            rest = hold_out(document, item)
            for passage in item.held_out:
                assert not any(" ".join(passage.text.split()) in text for text in texts_of(rest))
            removed = sum(len(passage.text.split()) for passage in item.held_out)
            before, after = (
                sum(len(text.split()) for text in texts_of(each)) for each in (document, rest)
            )
            assert before - removed <= after + 1  # the stop after a span stays, as a word or in one
            assert (rest.docid, rest.metadata) == (document.docid, document.metadata)

    def test_overlap_is_the_share_of_content_terms_that_the_rest_repeats(self) -> None:
        frequencies = Counter(
            term for each in DOCUMENTS for term in set(ANALYSER.terms(" ".join(texts_of(each))))
        )
        for item in ITEMS:
            terms = {
                term
                for term in ANALYSER.terms(item.query.text)
                if frequencies[term] <= len(DOCUMENTS) // 5
            }
            rest = set(ANALYSER.terms(" ".join(texts_of(hold_out(BY_DOCID[item.docid], item)))))
            assert item.overlap == pytest.approx(len(terms & rest) / len(terms))

    def test_lengths(self) -> None:
        for item in ITEMS:
            words = count_words(item.query.text)
            least, most = {"sentence": (6, 25), "span": (4, 8)}.get(item.origin, (2, 25))
            assert least <= words <= most

    def test_spans_hold_content_words_only(self) -> None:
        spans = make(DOCUMENTS, origins=("span",))
        assert not any(word.lower() in COMMON for item in spans for word in item.query.text.split())

    def test_the_first_words_of_a_text_are_not_asked(self) -> None:
        plain = [
            replace(each, fields={"text": (each.fields["text"][0].split("\n\n")[2],)})
            for each in DOCUMENTS
        ]
        for item in make(plain, origins=("sentence", "span")):
            assert item.held_out[0].span.start > 0

    def test_torch_and_the_stemmer_are_not_imported(self) -> None:
        module = "quoth.selfsupervision.known_items"
        heavy = {"torch", "Stemmer", "numpy"}
        code = f"import {module}, sys; sys.exit(bool({heavy} & set(sys.modules)))"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestAmbiguity:
    def test_shared_titles_are_left_out(self) -> None:
        twins = [
            replace(each, fields={**each.fields, "title": (f"On Ravens {n // 2}",)})
            for n, each in enumerate(DOCUMENTS[:20])
        ]
        assert make(twins, origins=("title",)) == ()

    def test_a_title_is_compared_with_all_documents_not_the_sample_alone(self) -> None:
        many = [
            Document(
                f"e{n}", {"title": (f"Tale number {n // 2}",), "text": ("It is so old. " * 9,)}
            )
            for n in range(1000)
        ]
        assert make(many, count=10, origins=("title",)) == ()

    def test_case_does_not_make_titles_differ(self) -> None:
        first, second = (make_document(docid) for docid in "xy")
        shouted = replace(
            second, fields={**second.fields, "title": (first.fields["title"][0].upper(),)}
        )
        assert make([first, shouted], origins=("title",)) == ()

    def test_copied_documents_give_nothing(self) -> None:
        copies = [replace(each, docid=f"copy of {each.docid}") for each in DOCUMENTS[:20]]
        assert make([*DOCUMENTS[:20], *copies]) == ()

    def test_what_leaves_nothing_behind_is_left_out(self) -> None:
        bare = [Document(f"d{n}", {"title": (f"Title{n} of word{n} wood{n}",)}) for n in range(9)]
        assert make(bare) == ()


class TestStretches:
    def test_headings_are_marked_or_underlined_and_not_code(self) -> None:
        text = (
            "First heading\n=============\nbody\n\n   ## Second one ##\r\nmore body\n"
            "```\n# a comment in code\n```\n#not-a-heading\n"
        )
        headings = find_headings(Document("d", {"title": ("# No",), "text": (text,)}))
        assert [text[each.span.start : each.span.end] for each in headings] == [
            "First heading",
            "Second one",
        ]

    def test_sentences_stop_at_headings_and_blank_lines(self) -> None:
        text = (
            "It flew\naway.\n# Birds\nIt came back\n\nand sat. Nevermore.\n\n```\ncode. Code.\n```"
        )
        sentences = list(find_sentences(Document("d", {"text": (text,)})))
        assert [each.query for each in sentences] == [
            *("It flew away.", "It came back", "and sat.", "Nevermore.")
        ]
        assert [each.is_first for each in sentences] == [True, False, False, False]

    def test_copies_of_a_short_stretch_fill_a_line(self) -> None:
        fields = {"title": ("The Raven",), "text": ("# The Raven\r\n\nThe Raven is a poem.",)}
        copies = find_copies(Document("d", fields), Stretch("", "title", 0, Span(0, 9)))
        assert copies == (
            Passage("d", "title", Span(0, 9), "The Raven"),
            Passage("d", "text", Span(2, 11), "The Raven"),
        )

    def test_copies_of_a_long_stretch_are_found_anywhere_whatever_the_line_breaks(self) -> None:
        fields = {"text": ("once upon a midnight", "x once upon\na midnight dreary")}
        copies = find_copies(Document("d", fields), Stretch("", "text", 0, Span(0, 20)))
        assert [(each.instance, each.span) for each in copies] == [
            (0, Span(0, 20)),
            (1, Span(2, 22)),
        ]

    def test_a_stretch_is_held_out_even_where_a_copy_overlaps_it(self) -> None:
        document = Document("d", {"text": ("a b c a b c a",)})
        copies = find_copies(document, Stretch("", "text", 0, Span(6, 13)))
        assert [each.span for each in copies] == [Span(0, 7), Span(6, 13)]

    def test_text_without_spaces(self) -> None:
        sights = ["東京都庁展望室夜景", "奈良公園鹿苑朝霧", "北海道雪祭氷像群"]
        documents = [
            Document(f"d{n}", {"text": (f"開場白。{sight}。其他的話語也在。",)})
            for n, sight in enumerate(sights)
        ]
        items = make(documents, origins=("span",))
        assert len(items) == 3
        assert all(
            item.query.text in documents[int(item.docid[1])].fields["text"][0] for item in items
        )


class TestHoldOut:
    DOCUMENT = Document("d", {"title": ("Old owls",), "text": ("one two three", "four")})

    def item(self, *held_out: Passage) -> KnownItem:
        return KnownItem(Query("q", "…"), "d", "span", held_out, 0.0)

    def test_an_emptied_field_disappears(self) -> None:
        item = self.item(
            Passage("d", "title", Span(0, 8), "Old owls"),
            Passage("d", "text", Span(0, 4), "four", 1),
        )
        assert hold_out(self.DOCUMENT, item).fields == {"text": ("one two three",)}

    def test_overlapping_stretches(self) -> None:
        first = Passage("d", "text", Span(4, 13), "two three")
        second = Passage("d", "text", Span(0, 7), "one two")
        inside = Passage("d", "text", Span(6, 9), "o t")
        assert hold_out(self.DOCUMENT, self.item(first, second)).fields["text"] == ("four",)
        assert hold_out(self.DOCUMENT, self.item(first, inside)).fields["text"][0].strip() == "one"

    @pytest.mark.parametrize(
        "passage",
        [
            Passage("d", "text", Span(0, 3), "two"),
            Passage("d", "text", Span(0, 3), "one", 5),
            Passage("d", "anchor", Span(0, 3), "one"),
            Passage("e", "text", Span(0, 3), "one"),
        ],
    )
    def test_another_document_than_it_was_made_from(self, passage: Passage) -> None:
        with pytest.raises(EvaluationError, match="make the known items again"):
            hold_out(self.DOCUMENT, self.item(passage))


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.lists(
            st.sampled_from(
                [
                    "raven",
                    "owl",
                    "a",
                    "W9",
                    "東京都",
                    ". ",
                    "\n\n",
                    "\n",
                    "# ",
                    "---\n",
                    "```\n",
                    " ",
                ]
            )
            | st.text(max_size=4),
            max_size=60,
        ).map(" ".join),
        max_size=6,
    ),
    st.integers(1, 9),
)
def test_any_text_gives_items_that_can_be_held_out(texts: Sequence[str], count: int) -> None:
    documents = {
        f"d{n}": Document(f"d{n}", {"title": (text[:20],), "text": (text, text[::-1])})
        for n, text in enumerate(texts)
    }
    items = make(list(documents.values()), count=count)
    assert len(items) <= count
    for item in items:
        assert 0.0 <= item.overlap <= 1.0
        assert hold_out(documents[item.docid], item) != documents[item.docid]


@pytest.mark.parametrize(
    "changes", [{"count": 0}, {"origins": ()}, {"origins": ("title", "anchor")}], ids=str
)
def test_unfit_requests(changes: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="known items"):
        make(DOCUMENTS[:1], **changes)
