"""Mail (eml, mbox): one document per message; its plain text, or else the text of its HTML."""

from __future__ import annotations

import email
import email.policy
import hashlib
import re
from collections.abc import Iterator
from datetime import datetime
from email.message import EmailMessage

from quoth.records import Document, Located, Place, Problem, Scalar
from quoth.text.readers.outcomes import PARSER_FAILURES, Outcome, Whole, describe, file_document

_FROM_LINE = re.compile(rb"^From [^\r\n]*\r?\n", re.MULTILINE)


def read_eml(whole: Whole) -> Iterator[Outcome]:
    """Read one message as one document."""
    try:
        message = _parse(whole.data)
        yield file_document(
            whole,
            format="eml",
            text=_body(message),
            title=str(message["subject"] or ""),
            metadata=_metadata(message),
        )
    except PARSER_FAILURES as error:
        yield Problem(Place(whole.path), f"not a readable message: {describe(error)}")


def read_mbox(whole: Whole) -> Iterator[Outcome]:
    """Read a mailbox, one document per message; its docid is the mailbox and the Message-ID."""
    starts = [
        each
        for each in _FROM_LINE.finditer(whole.data)
        if each.start() == 0 or whole.data[: each.start()].endswith((b"\n\n", b"\r\n\r\n"))
    ]
    if not starts:
        yield Problem(Place(whole.path), 'not a mailbox: no line begins with "From "')
    ends = [each.start() for each in starts[1:]] + [len(whole.data)]
    for start, end in zip(starts, ends, strict=True):
        line = 1 + whole.data.count(b"\n", 0, start.start())
        try:
            yield _mbox_message(whole, whole.data[start.end() : end], line)
        except PARSER_FAILURES as error:
            yield Problem(Place(whole.path, line), f"not a readable message: {describe(error)}")


def _mbox_message(whole: Whole, data: bytes, line: int) -> Outcome:
    message = _parse(re.sub(rb"^>(>*From )", rb"\1", data, flags=re.MULTILINE))
    known = str(message["message-id"] or "").strip("<> \t\r\n")
    name = known or hashlib.blake2b(data, digest_size=8).hexdigest()
    texts = {"title": str(message["subject"] or "").strip(), "text": _body(message)}
    fields = {key: (text,) for key, text in texts.items() if text.strip()}
    about = {**_metadata(message), "path": whole.path, "format": "mbox", "line": line}
    return Located(Document(f"{whole.path}#{name}", fields, about), Place(whole.path, line))


def _parse(data: bytes) -> EmailMessage:
    message = email.message_from_bytes(data, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    return message


def _body(message: EmailMessage) -> str:
    part = message.get_body(preferencelist=("plain", "html"))
    if part is None:
        return ""
    text = str(part.get_content())
    if part.get_content_subtype() == "html":
        from quoth.text.readers.html import read_visible

        text = read_visible(text)
    return text.replace("\r\n", "\n").strip()


def _metadata(message: EmailMessage) -> dict[str, Scalar | tuple[Scalar, ...]]:
    """Return who wrote to whom and when, as far as the message says."""
    found: dict[str, Scalar | tuple[Scalar, ...]] = {}
    for key in ("from", "to"):
        if value := " ".join(str(message[key] or "").split()):
            found[key] = value
    moment = getattr(message["date"], "datetime", None)
    if isinstance(moment, datetime):
        found["date"] = moment.isoformat()
    names = [part.get_filename() for part in message.iter_attachments()]
    if attached := tuple(name for name in names if name):
        found["attachments"] = attached
    return found
