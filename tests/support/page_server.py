"""A stand-in for the server, for tests of the page alone: the fixed interface, canned answers.

What a query says decides how it is answered: "hostile" finds documents that attack the page,
"nothing" finds none, "owll" is misspelt, "broken", "busy", "often" and "garbled" fail. Tests
hold back answers by closing `gate`.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl

from learning_reports import make_report
from page_canned import ATTENTION, EXPLAINED, JOB, STATS, STATUS

from quoth.collection.filter_syntax import parse_filter
from quoth.errors import FilterError

POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
KEY = "the-right-key"
RETRY_SECONDS = 7
OLD_KEY = "the-key-of-last-year"
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}

OWL = (
    "The barn owl hunts at dusk and by night, flying low over open fields. Its heart-shaped face"
    " gathers sound, so that it can strike a vole under the snow without seeing it. A pair that"
    " feeds young may bring home more than twenty voles in one night."
)
RAVEN = (
    "Ravens remember the faces of people who cheated them, and tell other ravens. In winter they"
    " follow wolves and foxes, and hide what they cannot eat; a raven that is watched only pretends"
    " to hide its food."
)
HEARING = (
    "An owl's ears sit at different heights. A sound from below reaches the lower ear first, by"
    " thirty millionths of a second, and that is enough to place a mouse to within a degree."
)
HOSTILE = (
    "<script>window.attacked = 1</script><img src=x onerror='window.attacked = 2'>"
    " owl \u202egnp.exe\u202c \u2066isolated\u2069 \x1b[31mred\f\r\n\U0001f989\U0001f989 owl end"
)
LONG = "owl " + "very long indeed " * 60_000
DOCUMENTS: dict[str, dict[str, Any]] = {
    "birds/barn-owl.md": {
        "fields": {"title": ["How the barn owl hunts"], "body": [OWL]},
        "metadata": {"year": 2021, "lang": "en", "tags": ["owls", "night"]},
        "place": "§ By ear",
    },
    "birds/hearing.md": {
        "fields": {"title": ["Hearing in the dark"], "body": [HEARING]},
        "metadata": {"year": 2018, "lang": "en"},
        "place": "p. 12",
        "also": ["talks/hearing.md", "mail/2018/hearing.md"],
    },
    "birds/raven.md": {
        "fields": {"title": ["What ravens know"], "body": [RAVEN]},
        "metadata": {"year": 1998, "lang": "en"},
    },
    '<b onclick="x">&amp;../hostile': {
        "fields": {
            "title": ["<script>window.attacked = 3</script> \u202eeltit"],
            "body": [HOSTILE],
        },
        "metadata": {"<i>key</i>": '"><script>window.attacked = 4</script>'},
        "place": "<script>window.attacked = 5</script> \u202eecalp",
        "also": ["<img src=x onerror='window.attacked = 6'>"],
    },
    "long": {"fields": {"title": ["t" * 5000], "body": [LONG]}, "metadata": {"x": "y" * 9000}},
}


def make_hit(rank: int, docid: str, words: tuple[str, ...] = ()) -> dict[str, Any]:
    """Make a hit whose passage is the whole body."""
    document = DOCUMENTS[docid]
    text = document["fields"]["body"][0]
    found = (re.search(rf"\b{re.escape(word)}\w*", text[:2000], re.IGNORECASE) for word in words)
    highlights = [each.span() for each in found if each]
    place = {"place": document.get("place", "")}
    passage = {"field": "body", "instance": 0, "start": 0, "end": len(text), "text": text}
    return {
        "rank": rank,
        "docid": docid,
        "score": 9.25 / rank,
        "title": document["fields"]["title"][0],
        "passage": passage | place,
        "snippet": {"text": text, "start": 0, "end": len(text), "highlights": highlights},
        "metadata": document["metadata"],
        "found_by": {},
        "explanation": None,
        "also": document.get("also", []),
    }


def search(body: dict[str, Any]) -> dict[str, Any]:
    """Answer /search."""
    query, words = body["query"], tuple(body["query"].lower().split())
    docids = list(DOCUMENTS)[:3]
    if "hostile" in query:
        docids = list(DOCUMENTS)[3:]
    if "nothing" in query:
        docids = []
    if "year > 2000" in body["where"]:
        docids = docids[:2]
    searcher = "hybrid" if body["searcher"] == "auto" else body["searcher"]
    if searcher == "dense":
        docids = docids[1:] + docids[:1]
    hits = [make_hit(at, docid, words) for at, docid in enumerate(docids, start=1)]
    if searcher == "hybrid":
        for hit in hits:
            hit["score"] = hit["score"] / 10
            hit["found_by"] = {
                "lexical": {"rank": hit["rank"], "score": 9.25 / hit["rank"]},
                "dense": {"rank": 4 - hit["rank"], "score": 0.61},
                "generative": {"rank": hit["rank"] + 1, "score": 2.4},
            }
    kept = hits[body["offset"] : body["offset"] + body["k"]]
    seconds = {"search": 0.0042}
    better = query.replace("owll", "owl") if "owll" in query else ""
    told = {"query": query, "searcher": searcher, "seconds": seconds, "did_you_mean": better}
    return {**told, "offset": body["offset"], "k": body["k"], "hits": kept}


def explain(body: dict[str, Any]) -> dict[str, Any]:
    """Answer /explain; fusion looks where its dense side looks."""
    looked = ATTENTION if body["searcher"] in ("dense", "hybrid") else None
    told = {"docid": body["docids"][0], "part": EXPLAINED[body["searcher"]]}
    asked = {"query": body["query"], "searcher": body["searcher"]}
    return {**asked, "explanations": [{**told, "attention": looked}]}


TOKENS: tuple[tuple[str, int | None], ...] = (
    ("By ear: its ", None),
    ("heart-shaped face gathers sound, so that it can strike a vole under the snow", 0),
    (", and since ", None),
    ("ears sit at different heights", 1),
    (" it knows how low the sound comes from: ", None),
    ("enough to place a mouse to within a degree", 1),
    (".", None),
)
PIECES: tuple[tuple[str, int | None], ...] = (
    ("A sound from below", 1),
    (" comes ", None),
    ("thirty millionths of a second", 1),
    (" sooner, ", None),
    ("of a second, and that is enough", 1),
    (".", None),
)
"""One sentence in pieces, two of which overlap where they come from."""


def tokens_of(question: str) -> tuple[tuple[str, int | None], ...]:
    """Choose an answer."""
    return PIECES if "pieces" in question else TOKENS


def answer(question: str) -> dict[str, Any]:
    """Answer /answer with tokens from above, each quotation cited; offsets count characters."""
    hits = [make_hit(1, "birds/barn-owl.md"), make_hit(2, "birds/hearing.md")]
    text, citations = ("\U0001f989 " if "\U0001f989" in question else ""), []
    for token, at in tokens_of(question):
        if at is not None:
            passage = hits[at]["passage"]
            start = passage["text"].index(token)
            sentence = next(
                each for each in re.split(r"(?<=\.) ", passage["text"]) if token in each
            )
            citations.append(
                {
                    "number": at + 1,
                    "answer_start": len(text),
                    "answer_end": len(text) + len(token),
                    "docid": hits[at]["docid"],
                    "field": "body",
                    "instance": 0,
                    "start": start,
                    "end": start + len(token),
                    "quoted": token,
                    "sentence": sentence,
                    "sentence_start": passage["text"].index(sentence),
                    "place": passage["place"],
                }
            )
        text += token
    record = {"question": question, "text": text, "abstained": False, "support": 0.86, "notice": ""}
    record["did_you_mean"] = question.replace("owll", "owl") if "owll" in question else ""
    record |= {"confidence": "probably", "disagrees": False}
    record |= {"citations": citations, "passages": hits, "searcher": "hybrid"}
    record |= {"marked": text, "unquoted": [], "short": _short(citations)}
    record |= {"seconds": {"search": 0.01, "answer": 1.79, "total": 1.8}}
    if "nobody" in question:
        text = "The documents do not say."
        record |= {"text": text, "abstained": True, "support": 0.04, "citations": []}
    return record


def _short(citations: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Take the second word of the first quotation for the short answer."""
    if not citations or citations[0]["quoted"].count(" ") < 2:
        return None
    word = citations[0]["quoted"].split()[1]
    start = citations[0]["answer_start"] + citations[0]["quoted"].index(word)
    place = {"answer_start": start, "answer_end": start + len(word)}
    return {"text": word, "probability": 0.6, **place}


class PageServer(ThreadingHTTPServer):
    """The stand-in, with what tests turn.

    `gate` closed holds answers back, `wants_key` asks for one, `writes` allows them, `filters` are
    those of the status, and `prefix` is where a proxy would show the page.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.gate = threading.Event()
        self.gate.set()
        self.wants_key = False
        self.has_report = True
        self.writes = False
        self.filters: dict[str, Any] = STATUS["filters"]
        self.prefix = ""
        self.asked: list[tuple[str, dict[str, Any]]] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def serve_page() -> Iterator[PageServer]:
    """Serve in a thread while the block runs."""
    with PageServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.gate.set()
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"  # connections are kept, which halves the time of a page

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if not path.startswith(f"{self.server.prefix}/"):
            return self._error(404, "NotFound", "this is outside the prefix")
        path = path.removeprefix(self.server.prefix)
        name = "index.html" if path == "/" else path.removeprefix("/assets/")
        if path == "/" or path.startswith("/assets/"):
            content = files("quoth.server").joinpath("web", name).read_bytes()
            return self._send(200, content, f"{TYPES[name.rpartition('.')[2]]}; charset=utf-8")
        if self._lacks_key():
            return None
        if path == "/status":
            return self._json({**STATUS, "filters": self.server.filters})
        if path == "/access":
            return self._json({"writes": self.server.writes, "collections": []})
        if path == "/job":
            return self._json(JOB)
        if path == "/stats":
            return self._json(STATS)
        if path == "/report" and self.server.has_report:
            return self._json(make_report().to_record())
        docid = dict(parse_qsl(query)).get("docid", "")
        if path == "/documents" and docid in DOCUMENTS:
            return self._json({"docid": docid, **DOCUMENTS[docid]})
        return self._error(404, "NotFound", "there is no such thing here")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.removeprefix(self.server.prefix)
        self.server.asked.append((path, body))
        if self._lacks_key():
            return None
        query = body.get("query") or body.get("question")
        if "broken" in query:
            return self._error(500, "internal", "something went wrong; the log knows what")
        if "busy" in query:
            return self._error(429, "Overloaded", "64 requests wait already; try again in 1 s")
        if "often" in query:
            return self._error(429, "TooManyRequests", "this key has asked 60 times in a minute")
        if "garbled" in query:
            return self._send(200, b"<html>A proxy's own page</html>", "text/html")
        try:
            for condition in body.get("where", ()):
                parse_filter(condition)
        except FilterError as error:
            return self._error(400, "FilterError", str(error))
        if "held" in query:
            self.server.gate.wait(20)
        if path == "/search":
            return self._json(search(body))
        if path == "/explain":
            return self._json(explain(body))
        return self._stream(answer(query), breaks="halfway" in query)

    def _stream(self, record: dict[str, Any], *, breaks: bool) -> None:
        self._head(200, "text/event-stream")
        self.send_header("Connection", "close")  # its end is the end of the answer
        self.end_headers()
        tokens = () if record["abstained"] else tokens_of(record["question"])
        for at, (text, passage) in enumerate(tokens):
            if at == 2:
                self.server.gate.wait(20)
                if breaks:
                    told = {"kind": "internal", "message": "the model fell silent"}
                    return self._event("error", {"error": {**told, "request_id": "r-1"}})
            self._event("token", {"text": text, "passage": passage})
        return self._event("answer", record)

    def _event(self, name: str, data: dict[str, Any]) -> None:
        self.wfile.write(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()

    def _lacks_key(self) -> bool:
        given = self.headers.get("Authorization")
        if not self.server.wants_key or given == f"Bearer {KEY}":
            return False
        if given is None:
            self._error(401, "KeyRequired", "this server asks for a key")
        elif given == f"Bearer {OLD_KEY}":
            self._error(401, "KeyExpired", "this key expired on 1 May 2026")
        else:
            self._error(401, "KeyUnknown", "no such key")
        return True

    def _error(self, status: int, kind: str, message: str) -> None:
        self._json({"error": {"kind": kind, "message": message, "request_id": "r-1"}}, status)

    def _json(self, value: object, status: int = 200) -> None:
        self._send(status, json.dumps(value).encode(), "application/json")

    def _send(self, status: int, content: bytes, media_type: str) -> None:
        self._head(status, media_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        try:
            self.wfile.write(content)
        except BrokenPipeError:
            return  # the page gave this answer up

    def _head(self, status: int, media_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        if status == 429:
            self.send_header("Retry-After", str(RETRY_SECONDS))

    def log_message(self, format: str, *args: object) -> None:
        """Be silent."""
