"""The manual page, written from the help of every command."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Any

import typer

from quoth import __version__

_FILES = (
    ("~/.cache/quoth", "The cache, safe to delete: converted models and checksums of large files."),
    ("NAME.quoth", "A collection: documents in SQLite, and the indexes built from them."),
)
_ENVIRONMENT = (
    ("XDG_CACHE_HOME", "Base folder of the cache, instead of ~/.cache."),
    ("HF_HUB_OFFLINE", "If set to 1, models named owner/name are never downloaded from a hub."),
    ("QUOTH_KEY", "The key that quoth serve --stats sends."),
    ("NO_COLOR", "If set to anything, output has no colours."),
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
        "searches documents by words and by meaning, learns to search them better",
        "without labels, and answers questions in the documents' own words, citing",
        "the source of each quotation.",
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
        yield from (".TP", f"\\fI{escape(_metavar(each))}\\fR", *_filled(each.help or ""))
    for each in options:
        yield from (".TP", _option(each), *_filled(_help(each)))


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
        yield from _filled(each)


def _exit_codes(epilog: str) -> Iterator[str]:
    """Write the exit codes that the help lists in one line.

    >>> list(_exit_codes("Exit codes: 0 done · 130 interrupted."))
    ['.TP', '\\\\fB0\\\\fR', 'done', '.TP', '\\\\fB130\\\\fR', 'interrupted']
    """
    for each in epilog.partition(":")[2].strip().rstrip(".").split(" · "):
        code, _, meaning = each.partition(" ")
        yield from (".TP", f"\\fB{code}\\fR", *_filled(meaning))


def _entries(pairs: tuple[tuple[str, str], ...]) -> Iterator[str]:
    for name, meaning in pairs:
        yield from (".TP", f"\\fB{escape(name)}\\fR", *_filled(meaning))


def _filled(text: str) -> Iterator[str]:
    """Write a paragraph in short lines, which roff fills again; escapes keep them below 80 bytes.

    >>> [len(line) for line in _filled("word " * 20)]
    [69, 29]
    """
    for line in textwrap.wrap(text, width=70, break_long_words=False, break_on_hyphens=False):
        yield escape(line)


def escape(text: str) -> str:
    r"""Write text so that roff prints it as it is.

    >>> escape("--k 'a' \\ b"), escape(".5 of all")
    ("\\-\\-k 'a' \\e b", '\\&.5 of all')
    """
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text[:1] in (".", "'") else text
