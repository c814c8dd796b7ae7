"""Options made from the settings: every `--section.field`, and `--set section.field=value`.

A command names the sections it takes; their options are added to its signature, where typer finds
them. `--help` shows those that people need, `--help-all` shows all.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from quoth.cli.conversion import spare_conversion
from quoth.cli.plain_group import PlainGroup, with_hyphens, without_value
from quoth.settings.config import sections, setting_names
from quoth.settings.describe import describe_setting
from quoth.settings.parsing import read_assignments

Command = Callable[..., None]

_ALL = "quoth.all"  # in a context: everything is shown

_SET = typer.Option(
    "--set",
    help="Any setting, such as dense.storage=int8; may be repeated. quoth settings lists them.",
    metavar="NAME=VALUE",
    show_default=False,
)


def with_settings(
    *names: str,
    without: Collection[str] = (),
    shown: Collection[str] = (),
    short: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Command], Command]:
    """Add the options of some sections to a command, which gets them as `settings`, text by name.

    Fields named in `without`, as section.field, have no option; those in `shown` stand in --help,
    as do those that `short` gives a further, short option. With `--set`, a field without its
    section is one of the first section.
    """
    fields = [f"{section}.{key}" for section in names for key in setting_names(sections()[section])]
    first = [*short, *shown]
    ordered = [*first, *(name for name in fields if name not in {*first, *without})]
    parameters = {name.replace(".", "__"): name for name in ordered}

    def decorate(command: Command) -> Command:
        def call(*, set_: Sequence[str] | None = None, **given: Any) -> None:
            texts = {
                parameters[name]: value
                for name, value in given.items()
                if name in parameters and value is not None
            }
            rest = {name: value for name, value in given.items() if name not in parameters}
            command(**rest, settings=texts | read_assignments(set_ or [], names))

        extra = [_parameter(name, short.get(name), is_shown=name in first) for name in ordered]
        return _extended(command, call, [*extra, _keyword("set_", list[str] | None, _SET)])

    return decorate


def add_help_all(app: typer.Typer) -> None:
    """Add the option `--help-all` to every command of an application and of its groups."""
    for each in app.registered_commands:
        assert each.callback is not None
        if each.cls is _SettingsCommand:  # of a group that has it already
            continue
        each.help = each.help or join_lines(inspect.getdoc(each.callback) or "")
        each.callback = _with_help_all(each.callback)
        each.cls = _SettingsCommand
    for group in app.registered_groups:
        assert group.typer_instance is not None
        group.cls = PlainGroup
        add_help_all(group.typer_instance)


def join_lines(text: str) -> str:
    r"""Join the lines of each paragraph, which a terminal breaks by its own width.

    >>> join_lines("First\nlines.\n\nSecond.")
    'First lines.\n\nSecond.'
    """
    return "\n\n".join(" ".join(each.split()) for each in text.split("\n\n"))


class _SettingsCommand(TyperCommand):
    """Describes its settings when help is wanted, so that other calls need not wait for that."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for each in self.params:
            spare_conversion(each)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        kept = self.params
        self.params = [_described(each, is_all=bool(ctx.meta.get(_ALL))) for each in kept]
        try:
            super().format_help(ctx, formatter)
        finally:
            self.params = kept

    def get_help_option(self, ctx: Any) -> Any:
        return without_value(super().get_help_option(ctx))


def _described(option: Any, *, is_all: bool) -> Any:
    """Return an option as help shows it; the option itself stays as it is."""
    shown = copy.copy(option)
    section, _, key = (option.name or "").partition("__")
    if key and section in sections():
        found = describe_setting(section, key)
        shown.help = f"{found.help} Default: {found.default_text}."
        if not is_all:
            shown.opts = option.opts[:1]  # the short name alone, where there is one
    if is_all:
        shown.hidden = False
    return shown


def _with_help_all(command: Command) -> Command:
    def call(*, help_all: bool = False, **given: Any) -> None:
        command(**given)

    option = typer.Option(
        "--help-all",
        help="Show every option and setting, and exit.",
        callback=_show_all,
        is_eager=True,
        metavar="",
        show_default=False,
    )
    return _extended(command, call, [_keyword("help_all", bool, option, default=False)])


def _show_all(context: typer.Context, wanted: bool) -> None:
    if wanted:
        context.meta[_ALL] = True
        typer.echo(context.get_help())
        raise typer.Exit


def _extended(command: Command, call: Command, extra: Sequence[inspect.Parameter]) -> Command:
    """Return a call with a command's name and signature, `settings` left out and more added."""
    own = inspect.signature(command, eval_str=True)
    kept = [each for name, each in own.parameters.items() if name != "settings"]
    functools.update_wrapper(call, command)
    call.__signature__ = own.replace(parameters=[*kept, *extra])  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in [*kept, *extra]}
    del call.__wrapped__  # type: ignore[attr-defined]  # typer must see the new signature
    return call


def _parameter(name: str, short: str | None, *, is_shown: bool) -> inspect.Parameter:
    section, _, key = name.partition(".")
    option = typer.Option(
        *([short] if short else []),
        f"--{with_hyphens(name)}",
        rich_help_panel=None if is_shown else f"Settings: {section}",
        hidden=not is_shown,
        metavar="VALUE",
        show_default=False,
    )
    return _keyword(f"{section}__{key}", str | None, option)


def _keyword(name: str, kind: Any, option: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )
