"""Options made from the configuration: every `--section.field`, with its docstring as help.

A command names the sections it takes; their options are added to its signature, where typer finds
them.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any

import typer

from quoth.settings.config import field_types, sections


def with_settings(
    *names: str, without: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of some sections; it receives them as `settings`, text by name.

    Fields named in `without`, as section.field, have no option.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters = {
            f"{section}__{key}": f"{section}.{key}"
            for section in names
            for key in field_types(sections()[section])
            if f"{section}.{key}" not in without
        }

        @functools.wraps(command)
        def call(**given: Any) -> None:
            texts = {
                parameters[name]: value
                for name, value in given.items()
                if name in parameters and value is not None
            }
            rest = {name: value for name, value in given.items() if name not in parameters}
            command(**rest, settings=texts)

        own = inspect.signature(command, eval_str=True)
        kept = [each for name, each in own.parameters.items() if name != "settings"]
        extra = [_parameter(*name.split(".")) for name in parameters.values()]
        call.__signature__ = own.replace(parameters=[*kept, *extra])  # type: ignore[attr-defined]
        call.__annotations__ = {each.name: each.annotation for each in [*kept, *extra]}
        del call.__wrapped__  # typer must see the new signature, not the old one
        return call

    return decorate


def _parameter(section: str, key: str) -> inspect.Parameter:
    kind = sections()[section]
    option = typer.Option(
        f"--{with_hyphens(f'{section}.{key}')}",
        help=f"{field_docs(kind).get(key, '')} Default: {_show(_default(kind, key))}.",
        rich_help_panel=f"Settings: {section}",
        metavar="VALUE",
        show_default=False,
    )
    return inspect.Parameter(
        f"{section}__{key}",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[str | None, option],
    )


def _default(kind: type, key: str) -> Any:
    return getattr(kind(), key)


def _show(value: object) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name}={weight:g}" for name, weight in value.items()) or "empty"
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "empty"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else str(value) or "empty"


def with_hyphens(name: str) -> str:
    """Let an option be written as in a TOML file, too.

    >>> with_hyphens("passages.max_words")
    'passages.max-words'
    """
    return name.replace("_", "-")


@functools.cache
def field_docs(kind: type) -> dict[str, str]:
    """Read the docstring that stands below each field of a dataclass.

    >>> from quoth.text.words import AnalyserConfig
    >>> field_docs(AnalyserConfig)["fold_accents"][:24]
    'Let words match whether '
    """
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    docs = {}
    for field, doc in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(doc, ast.Expr)
            and isinstance(doc.value, ast.Constant)
        ):
            docs[field.target.id] = inspect.cleandoc(str(doc.value.value))
    return docs
