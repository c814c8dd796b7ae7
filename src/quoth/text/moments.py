"""Moments as files keep them (ISO 8601 in UTC), and as commands take them: 90d, or a date."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from quoth.errors import ConfigError

_SECONDS_BY_UNIT = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"([0-9]{1,9})([smhdw])")


def find_moment(text: object) -> datetime | None:
    """Return the moment that a text in ISO 8601 names, in UTC unless it says otherwise.

    >>> str(find_moment("2027-01-31T02:00:00+02:00")), find_moment("tomorrow")
    ('2027-01-31 00:00:00+00:00', None)
    """
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def write_moment(moment: datetime) -> str:
    """Write a moment in ISO 8601.

    >>> write_moment(datetime(2027, 1, 31, tzinfo=UTC))
    '2027-01-31T00:00:00Z'
    """
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def write_now() -> str:
    """Write the present moment, to the second."""
    return write_moment(datetime.now(UTC).replace(microsecond=0))


def to_utc(text: str | None) -> str | None:
    """Write a moment as one in UTC; what is no moment stays as it is.

    >>> to_utc("2027-01-31"), to_utc("tomorrow"), to_utc(None)
    ('2027-01-31T00:00:00Z', 'tomorrow', None)
    """
    moment = find_moment(text)
    return text if moment is None else write_moment(moment)


def read_duration(text: str, *, option: str) -> int:
    """Return the seconds of a duration.

    >>> read_duration("90m", option="--grace"), read_duration("2w", option="--grace")
    (5400, 1209600)
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ConfigError(
            f"{option} is {text!r}, expected a number with s, m, h, d or w, such as 45m or 90d"
        )
    return int(found[1]) * _SECONDS_BY_UNIT[found[2]]


def read_moment(text: str, *, option: str, now: datetime) -> datetime:
    """Return the moment that is so far from now, or at which a day begins (in UTC).

    >>> now = datetime(2027, 1, 1, 12, tzinfo=UTC)
    >>> str(read_moment("90d", option="--expires", now=now))
    '2027-04-01 12:00:00+00:00'
    >>> str(read_moment("2027-01-31", option="--expires", now=now))
    '2027-01-31 00:00:00+00:00'
    """
    moment = find_moment(text) or _add(text, option=option, now=now)
    if moment <= now:
        raise ConfigError(
            f"{option} is {text}, which is past (it is {now:%Y-%m-%d %H:%M} UTC); give a later"
            " date, or a duration such as 90d"
        )
    return moment


def _add(text: str, *, option: str, now: datetime) -> datetime:
    try:
        return now + timedelta(seconds=read_duration(text, option=option))
    except ConfigError as error:
        raise ConfigError(
            f"{option} is {text!r}, expected a date such as 2027-01-31, or a duration such as 90d"
        ) from error
    except OverflowError as error:
        raise ConfigError(
            f"{option} is {text}, which is beyond the year 9999; leave it out for a key that does"
            " not expire"
        ) from error
