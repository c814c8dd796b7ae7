"""The page, its files, and the page at /docs; all held in memory, found by name in a fixed list.

Nothing of a request is ever made into a path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

from fastapi import Request, Response

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
    ".webmanifest": "application/manifest+json",
}
_INDEX = "index.html"
REVALIDATE = {"Cache-Control": "no-cache"}
"""Headers of what a browser may keep, but asks about before it uses it again."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the page."""

    content: bytes
    media_type: str
    tag: str


def read_assets() -> dict[str, Asset]:
    """Read every file of the page, by name."""
    assets = {}
    for entry in files("quoth.server").joinpath("web").iterdir():
        suffix = entry.name[entry.name.rfind(".") :] if "." in entry.name else ""
        if suffix in _TYPES:
            content = entry.read_bytes()
            tag = f'W/"{hashlib.sha256(content).hexdigest()[:32]}"'  # weak: it may be compressed
            assets[entry.name] = Asset(content, _TYPES[suffix], tag)
    return assets


def index_of(assets: Mapping[str, Asset]) -> Asset:
    """Return the page itself."""
    return assets[_INDEX]


def send_asset(asset: Asset, request: Request) -> Response:
    """Send a file, or only say that the browser has it already."""
    headers = {**REVALIDATE, "ETag": asset.tag}
    if has_tag(request.headers.get("If-None-Match", ""), asset.tag):
        return Response(status_code=304, headers=headers)
    return Response(asset.content, media_type=asset.media_type, headers=headers)


def has_tag(known: str, tag: str) -> bool:
    """Say whether the tags that a client knows name this one; weak and strong are compared alike.

    >>> has_tag('"a", W/"b"', 'W/"b"'), has_tag('"b"', 'W/"b"'), has_tag("*", 'W/"b"')
    (True, True, True)
    >>> has_tag("", 'W/"b"'), has_tag('W/"bb"', 'W/"b"')
    (False, False)
    """
    names = [each.strip().removeprefix("W/") for each in known.split(",")]
    return "*" in names or tag.removeprefix("W/") in names


def docs_page(description: Mapping[str, Any]) -> str:
    """Write the description of the interface as a plain page: no script, nothing from outside."""
    title = f"{escape(description['info']['title'])} {escape(description['info']['version'])}"
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{title}</title>"
        '<meta name="viewport" content="width=device-width">'
        '<link rel="stylesheet" href="assets/style.css"></head><body><main>'
    )
    return "\n".join((head, *_docs_lines(description, title), "</main></body></html>"))


def _docs_lines(description: Mapping[str, Any], title: str) -> Iterator[str]:
    yield f"<h1>{title}</h1>"
    for line in description["info"].get("description", "").split("\n\n"):
        yield f"<p>{escape(line)}</p>"
    yield '<p>For programs: <a href="openapi.json">openapi.json</a>.</p>'
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
            yield f"<p>{escape(operation.get('description', operation.get('summary', '')))}</p>"
            content = operation.get("requestBody", {}).get("content", {})
            for media in content.values():
                name = media.get("schema", {}).get("$ref", "").rpartition("/")[2]
                yield from _schema_lines(description["components"]["schemas"].get(name, {}))


def _schema_lines(schema: Mapping[str, Any]) -> Iterator[str]:
    required = schema.get("required", ())
    yield "<ul>"
    for name, field in schema.get("properties", {}).items():
        about = [_type_of(field), "required" if name in required else ""]
        for bound in ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"):
            about.append(f"{bound} {field[bound]}" if bound in field else "")
        if field.get("default") is not None:
            about.append(f"default {field['default']}")
        about.append(field.get("description", ""))
        text = ", ".join(each for each in about if each)
        yield f"<li><code>{escape(name)}</code>: {escape(text)}</li>"
    yield "</ul>"


def _type_of(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return " | ".join(map(str, field["enum"]))
    if "anyOf" in field:
        return " | ".join(_type_of(each) for each in field["anyOf"])
    return str(field.get("type", "")) or str(field.get("$ref", "")).rpartition("/")[2]
