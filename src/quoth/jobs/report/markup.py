"""Write HTML and SVG by calls: whatever is not markup made here is escaped.

Texts of documents end up in pages. So that no one can forget to escape one, elements take plain
strings and escape them; only what `element` itself returned, a `Markup`, goes in as it is.
"""

from __future__ import annotations

import html

from quoth.text.display import make_safe

_VOID = ("meta", "br", "hr")


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Attribute = str | float | int


def element(name: str, /, *content: str, **attributes: Attribute) -> Markup:
    """Make an element; `class_` stands for class, and _ for - in attribute names.

    >>> element("p", "1 < 2 ", element("b", "<script>"), class_="note")
    '<p class="note">1 &lt; 2 <b>&lt;script&gt;</b></p>'
    >>> element("meta", http_equiv="x")
    '<meta http-equiv="x">'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_show(value))}"'
        for key, value in attributes.items()
    )
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(*content)}</{name}>")


def join(*content: str) -> Markup:
    """Put pieces one after another, escaping what is no markup.

    >>> join("a & b", element("br"))
    'a &amp; b<br>'
    """
    return Markup("".join(each if isinstance(each, Markup) else escape(each) for each in content))


def escape(text: str) -> str:
    r"""Make text safe inside an element or an attribute; control characters are shown as �.

    >>> escape('<a href="x">\x1b')
    '&lt;a href=&quot;x&quot;&gt;�'
    """
    return html.escape(make_safe(text), quote=True)


def _show(value: Attribute) -> str:
    """Write a number without digits that no one sees.

    >>> _show(3.14159), _show(2.0), _show("a")
    ('3.14', '2', 'a')
    """
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)
