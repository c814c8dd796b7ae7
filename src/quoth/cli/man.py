"""The manual page, written from the help of every command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from quoth import __version__

_FILES = (
    ("~/.cache/quoth", "What can be made again: converted models and checksums of large files."),
    ("NAME.quoth", "A collection: documents in SQLite, and the indexes made of them."),
)
_ENVIRONMENT = (
    ("XDG_CACHE_HOME", "Where the folder quoth of the cache lies, instead of ~/.cache."),
    ("HF_HUB_OFFLINE", "Set to 1, models named owner/name are never fetched from their hub."),
    ("QUOTH_KEY", "The key that quoth serve --stats sends."),
    ("NO_COLOR", "Set to anything, output has no colours."),
)


def man_page(app: typer.Typer) -> str:
    """Write the manual page of an application in roff."""
    root = typer.main.get_command(app)
    lines = [
        f'.TH QUOTH 1 "" "quoth {__version__}" "User Commands"',
        ".SH NAME",
        "quoth \\- search your own documents without a single label",
        ".SH SYNOPSIS",
        ".B quoth",
        ".I COMMAND",
        "[\\fIOPTION\\fR]...",
        ".SH DESCRIPTION",
        ".B quoth",
        "searches documents by words and by meaning, learns to search them better without labels,",
        "and answers questions in the documents' own words, each quotation with its source.",
        "It works offline. Every command takes \\fB\\-\\-help\\fR, and \\fB\\-\\-help\\-all\\fR",
        "for every setting; \\fBquoth settings\\fR lists all settings.",
        ".SH COMMANDS",
        *_commands(root, "quoth"),
        ".SH EXIT STATUS",
        *_exit_codes(str(root.epilog)),
        ".SH ENVIRONMENT",
        *_entries(_ENVIRONMENT),
        ".SH FILES",
        *_entries(_FILES),
    ]
    return "\n".join(lines) + "\n"


def _commands(group: Any, before: str) -> Iterator[str]:
    """Write the commands of a group, and those of the groups in it."""
    for name, command in group.commands.items():
        path = f"{before} {name}"
        if hasattr(command, "commands"):
            yield from _commands(command, path)
        else:
            yield from _command(command, path)


def _command(command: Any, path: str) -> Iterator[str]:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [
        each
        for each in command.params
        if each.param_type_name == "option" and not each.hidden and each.name != "help_all"
    ]
    shown = " ".join(_usage(each) for each in arguments)
    yield f".SS \\fB{escape(path)}\\fR {shown}".rstrip()
    yield from _paragraphs(command.help or "")
    for each in arguments:
        yield from (".TP", f"\\fI{escape(_metavar(each))}\\fR", escape(each.help or ""))
    for each in options:
        yield from (".TP", _option(each), escape(_help(each)))


def _usage(argument: Any) -> str:
    name = f"\\fI{escape(_metavar(argument))}\\fR"
    if argument.nargs == -1:
        name += "..."
    return name if argument.required else f"[{name}]"


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or (parameter.name or "").upper())


def _option(option: Any) -> str:
    names = ", ".join(f"\\fB{escape(each)}\\fR" for each in [*option.opts, *option.secondary_opts])
    return f"{names} \\fI{escape(option.metavar)}\\fR" if option.metavar else names


def _help(option: Any) -> str:
    """Return an option's help; that of a setting is described where it is declared."""
    section, _, key = (option.name or "").partition("__")
    if option.help or not key:
        return option.help or ""
    from quoth.settings.describe import describe_setting

    found = describe_setting(section, key)
    return f"{found.help} Default: {found.default_text}."


def _paragraphs(text: str) -> Iterator[str]:
    for number, each in enumerate(re.split(r"\n\s*\n", text.strip())):
        if number:
            yield ".PP"
        yield escape(" ".join(each.split()))


def _exit_codes(epilog: str) -> Iterator[str]:
    """Write the exit codes that the help lists in one line.

    >>> list(_exit_codes("Exit codes: 0 done · 130 interrupted."))
    ['.TP', '\\\\fB0\\\\fR', 'done', '.TP', '\\\\fB130\\\\fR', 'interrupted']
    """
    for each in epilog.partition(":")[2].strip().rstrip(".").split(" · "):
        code, _, meaning = each.partition(" ")
        yield from (".TP", f"\\fB{code}\\fR", escape(meaning))


def _entries(pairs: tuple[tuple[str, str], ...]) -> Iterator[str]:
    for name, meaning in pairs:
        yield from (".TP", f"\\fB{escape(name)}\\fR", escape(meaning))


def escape(text: str) -> str:
    r"""Write text so that roff prints it as it is.

    >>> escape("--k 'a' \\ b"), escape(".5 of all")
    ("\\-\\-k 'a' \\e b", '\\&.5 of all')
    """
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text[:1] in (".", "'") else text
