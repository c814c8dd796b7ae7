"""Errors as tools of the Model Context Protocol tell them: one shape for all of them.

A call that fails gives a result with `isError` and one text, the JSON `{"error": {"kind",
"message"}}`, as over HTTP. There is no structured content in it: it would have to fit the tool's
output schema, and clients refuse a result whose structured content does not.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.types import CallToolResult, TextContent
from pydantic import ValidationError

from quoth.errors import QuothError
from quoth.server.errors import RequestError, headers_of, status_of

_MAX_PROBLEMS = 20
_MAX_NAME_CHARS = 100
_logger = logging.getLogger(__name__)


def failed_call(
    tool: str, error: ToolError, *, arguments_by_tool: Mapping[str, Sequence[str]]
) -> CallToolResult:
    """Return what the assistant is told of a failed call.

    What Quoth raises on purpose is told, and what is wrong with arguments, by their names. Anything
    else is logged and told without details.
    """
    cause = error.__cause__
    if tool not in arguments_by_tool:
        known = ", ".join(arguments_by_tool)
        return _failure("NotFound", f"there is no tool {_short(tool)!r}, only {known}")
    if isinstance(cause, QuothError | RequestError):
        return _failure(type(cause).__name__, _with_retry(cause))
    if isinstance(cause, ValidationError) and not isinstance(error, UnexpectedToolError):
        return _failure("ValidationError", _problems(cause, arguments_by_tool[tool]))
    _logger.error("tool %s failed", tool, exc_info=error)
    return _failure("InternalError", "the server failed; its log says more")


def _failure(kind: str, message: str) -> CallToolResult:
    text = json.dumps({"error": {"kind": kind, "message": message}}, ensure_ascii=False)
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def _with_retry(error: QuothError | RequestError) -> str:
    seconds = headers_of(status_of(error), error).get("Retry-After")
    return f"{error} (retry after {seconds} s)" if seconds else str(error)


def _problems(error: ValidationError, arguments: Sequence[str]) -> str:
    """Say what is wrong with each argument; values are not repeated."""
    problems = []
    for each in error.errors(include_url=False, include_input=False)[:_MAX_PROBLEMS]:
        is_unknown = each["type"] == "extra_forbidden"
        told = f"unknown argument, expected {', '.join(arguments)}" if is_unknown else each["msg"]
        problems.append(f"{_place(each['loc'])}: {told}")
    return "; ".join(problems)


def _place(location: tuple[Any, ...]) -> str:
    """Name the argument that a problem is in.

    >>> _place(("k",))
    'k'
    """
    return _short(".".join(str(each) for each in location))


def _short(name: str) -> str:
    return name if len(name) <= _MAX_NAME_CHARS else f"{name[:_MAX_NAME_CHARS]}…"
