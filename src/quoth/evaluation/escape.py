"""Write any qid or docid as one word of a TREC file, and read it back.

TREC formats separate columns by white space, so a docid such as "my notes/a.md" cannot stand in
them. White space, control characters, lone surrogates (file names that are not UTF-8), the byte
order mark and "%" itself are percent-encoded; everything else stays readable. Pure: strings in,
strings out.
"""

from __future__ import annotations

import re

_UNSAFE = re.compile(r"[%\s\x00-\x1f\x7f-\x9f\ud800-\udfff\ufeff]")
_ESCAPES = re.compile(r"(?:%[0-9A-F]{2})+")


def escape(key: str) -> str:
    """Percent-encode what would break a column apart.

    >>> escape("my notes/a.md"), escape("100%")
    ('my%20notes/a.md', '100%25')
    """
    return _UNSAFE.sub(_percent_encode, key)


def unescape(text: str) -> str:
    """Undo `escape`; what it never writes, as in another tool's URLs, stays as it is.

    >>> unescape("my%20notes/a.md"), unescape("100%25"), unescape("caf%C3%A9"), unescape("50%")
    ('my notes/a.md', '100%', 'caf%C3%A9', '50%')
    """
    return _ESCAPES.sub(_percent_decode, text)


def _percent_encode(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))


def _percent_decode(match: re.Match[str]) -> str:
    try:
        decoded = bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return match[0]
    # Each decoded character stands for itself only if it would have been escaped.
    return decoded if all(map(_UNSAFE.match, decoded)) else match[0]
