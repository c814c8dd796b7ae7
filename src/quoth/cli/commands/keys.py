"""`quoth keys new`, `list`, `revoke` and `rotate`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quoth.cli import show
from quoth.cli.commands.arguments import AsJson

if TYPE_CHECKING:
    from quoth.server.access.keys import Key

keys = typer.Typer(name="keys", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the key.")]
KeysFile = Annotated[Path, typer.Option("--keys", help="The key file.", metavar="FILE")]
ScopeName = Annotated[
    str,
    typer.Option(
        "--scope",
        help="What the key allows: observe (metrics only), read (also search, answers and"
        " documents) or write (everything).",
        metavar="SCOPE",
    ),
]
Expires = Annotated[
    str,
    typer.Option(
        help="When the key expires: after a period such as 90d or 12h, or at the start of a"
        " day such as 2027-01-31 (UTC). By default, never.",
        metavar="TIME",
        show_default=False,
    ),
]
ExpiresAnew = Annotated[
    str,
    typer.Option(
        "--expires",
        help="When the new secret expires; by default, when the old one would have.",
        metavar="TIME",
        show_default=False,
    ),
]
PerMinute = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Rate limit in requests per minute; by default, the server's own limit applies.",
        metavar="N",
        show_default=False,
    ),
]
Grace = Annotated[
    str,
    typer.Option(
        help="How long the old secret keeps working, such as 1h; by default, it stops working"
        " at once.",
        metavar="TIME",
        show_default=False,
    ),
]


@keys.callback()
def about_keys() -> None:
    """Create and manage the keys that quoth serve --keys FILE requires.

    A running server picks up changes to the file without a restart.
    """


@keys.command()
def new(
    name: Name,
    *,
    keys_file: KeysFile,
    scope: ScopeName = "read",
    expires: Expires = "",
    per_minute: PerMinute = None,
) -> None:
    """Create a key and print its secret, this once; the file keeps only a hash."""
    from quoth.server.access.keys import add_key, read_scope

    chosen = read_scope(scope, option="--scope")
    end = _moment(expires)
    secret = add_key(keys_file, name, chosen, expires=end, per_minute=per_minute)
    until = f", valid until {end}" if end else ""
    print_secret(f"key {name!r} to {scope}{until}", secret, keys_file)


@keys.command("list")
def list_all(*, keys_file: KeysFile, as_json: AsJson = False) -> None:
    """List the keys in a file, without their secrets.

    A key that was rotated with a grace period is listed twice until the period is over: once for
    the old secret, once for the new one.
    """
    from quoth.server.access.keys import list_keys

    found, now = list_keys(keys_file), datetime.now(UTC)
    newest = {each.name: each for each in found}
    records = [_record(each, newest[each.name], now) for each in found]
    if as_json:
        show.print_json(records)
        return
    columns = ["name", "scope", "created", "expires", "a minute", "state"]
    show.out().print(show.table(str(keys_file), columns, [_row(each) for each in records]))


@keys.command()
def revoke(name: Name, *, keys_file: KeysFile) -> None:
    """Revoke a key at once and remove it from the file."""
    from quoth.server.access.keys import revoke_key

    revoke_key(keys_file, name)
    show.note(f"key {name!r} is no longer valid")


@keys.command()
def rotate(
    name: Name, *, keys_file: KeysFile, grace: Grace = "", expires: ExpiresAnew = ""
) -> None:
    """Give a key a new secret and print it; name, scope and rate limit stay the same."""
    from quoth.server.access.keys import rotate_key
    from quoth.text.moments import read_duration

    seconds = read_duration(grace, option="--grace") if grace else 0
    secret = rotate_key(keys_file, name, grace_seconds=seconds, expires=_moment(expires))
    old = f"keeps working for {grace}" if seconds else "has stopped working"
    print_secret(f"new secret of key {name!r}; the old one {old}", secret, keys_file)


def print_secret(what: str, secret: str, path: Path) -> None:
    """Print a secret on standard output, alone; what it is goes to standard error."""
    show.note(f"{what}; it is shown only this once, as {path} keeps only its hash:")
    typer.echo(secret)


def _moment(text: str) -> str | None:
    from quoth.text.moments import read_moment, write_moment

    if not text:
        return None
    now = datetime.now(UTC).replace(microsecond=0)
    return write_moment(read_moment(text, option="--expires", now=now))


def _record(key: Key, newest: Key, now: datetime) -> dict[str, Any]:
    """Write a key as plain values; `newest` is the one of its name that is not to be replaced."""
    lasting = "valid" if key is newest else "replaced"
    return {
        "name": key.name,
        "scope": key.scope,
        "created": key.created or None,
        "expires": key.expires,
        "per_minute": key.per_minute,
        "state": "expired" if key.is_expired(now) else lasting,
    }


def _row(record: dict[str, Any]) -> list[str]:
    return [
        record["name"],
        record["scope"],
        _to_the_minute(record["created"]) or "unknown",
        _to_the_minute(record["expires"]) or "never",
        "" if record["per_minute"] is None else f"{record['per_minute']:,}",
        record["state"],
    ]


def _to_the_minute(moment: str | None) -> str:
    """Shorten a moment for a table.

    >>> _to_the_minute("2027-01-31T08:30:00Z")
    '2027-01-31 08:30'
    """
    return "" if moment is None else moment[:16].replace("T", " ")
