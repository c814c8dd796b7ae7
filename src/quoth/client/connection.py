"""Requests over one kept connection: JSON in, JSON or a stream of events out, errors by name."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
import urllib.parse
from collections.abc import Iterator
from typing import Any

from quoth import errors
from quoth.errors import ConfigError, QuothError

_MAX_WAIT_SECONDS = 10.0  # that a server may ask for before it is tried again
_BROKEN = (ConnectionError, http.client.HTTPException)


class ServerError(QuothError):
    """The server cannot be reached, or refused a request for a reason that is its own.

    `status` is the HTTP status, 0 where there was no answer; `request_id` finds the request in the
    server's log.
    """

    def __init__(self, message: str, *, status: int = 0, request_id: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.request_id = request_id


class Connection:
    """Sends requests over one kept connection, and waits where the server asks for it."""

    def __init__(self, url: str, *, key: str | None, timeout: float, retries: int) -> None:
        self._url, self._retries, self._timeout = url.rstrip("/"), retries, timeout
        parts = _check(url, key=key, timeout=timeout, retries=retries)
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._http = kind(parts.hostname or "", parts.port, timeout=timeout)
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        self._http.close()

    def fetch(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        """Return the JSON object that a request is answered with."""
        with self._explaining(), self.open(method, path, body) as response:
            data = response.read()
        return _read_object(data, url=self._url)

    def delete(self, path: str) -> bool:
        """Delete what stands at a path; False if nothing does."""
        self.close()  # sent twice over a stale connection, it would say that nothing was there
        with self._explaining(), self.open("DELETE", path, may_miss=True) as response:
            response.read()
            return response.status != 404

    def open(
        self, method: str, path: str, body: bytes | None = None, *, may_miss: bool = False
    ) -> http.client.HTTPResponse:
        """Send a request, again while the server is busy; what it refuses is raised."""
        with self._explaining():
            for attempt in range(self._retries + 1):
                response = self._send(method, path, body)
                if response.status < 400 or (may_miss and response.status == 404):
                    return response
                data = response.read()
                wait = _wait_seconds(response.headers.get("Retry-After"))
                if response.status != 429 or attempt == self._retries or wait > _MAX_WAIT_SECONDS:
                    break
                time.sleep(wait)
        raise named_error(_read_json(data), status=response.status)

    def events(self, response: http.client.HTTPResponse) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the events of a stream; one that is left early ends the connection."""
        name, data = "", ""
        try:
            with self._explaining():
                while line := response.readline():
                    field, _, value = line.decode("utf-8").rstrip("\r\n").partition(":")
                    if field == "event":
                        name = value.strip()
                    elif field == "data":
                        data += value.removeprefix(" ")
                    elif not field and data:
                        yield name, _read_object(data.encode(), url=self._url)
                        name, data = "", ""
        finally:
            if not response.isclosed():
                self.close()

    def _send(self, method: str, path: str, body: bytes | None) -> http.client.HTTPResponse:
        """Send once; anew if the kept connection turns out to have been closed meanwhile."""
        is_kept = self._http.sock is not None
        try:
            return self._send_once(method, path, body)
        except _BROKEN:
            self.close()
            if not is_kept:
                raise
            return self._send_once(method, path, body)

    def _send_once(self, method: str, path: str, body: bytes | None) -> http.client.HTTPResponse:
        self._http.request(method, self._prefix + path, body=body, headers=self._headers)
        return self._http.getresponse()

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            self.close()
            raise ServerError(
                f"{self._url} did not answer within {self._timeout:g} s; try again, or give"
                " Client a longer timeout"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise ServerError(
                f'{self._url} cannot be reached ({error}); is "quoth serve" running there?'
            ) from error


def _check(url: str, *, key: str | None, timeout: float, retries: int) -> urllib.parse.SplitResult:
    """Take the address apart; every problem with what was given is reported."""
    problems = []
    try:
        parts = urllib.parse.urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port or an address that is none
        is_usable = False
    if not is_usable:
        problems.append(f"url is {url!r}, expected one such as http://127.0.0.1:8080")
    if key is not None and not (key.isascii() and key.isprintable() and key.strip()):
        problems.append("key holds characters that no key has; give the one that was printed")
    if timeout <= 0:
        problems.append(f"timeout is {timeout}, expected more than 0 seconds")
    if retries < 0:
        problems.append(f"retries is {retries}, expected 0 or more")
    if problems:
        raise ConfigError("client: " + "; ".join(problems))
    return parts


def _wait_seconds(given: str | None) -> float:
    """Read how long to wait; a server that does not say is tried again after a second.

    >>> _wait_seconds("2"), _wait_seconds(None), _wait_seconds("soon")
    (2.0, 1.0, 1.0)
    """
    return float(given) if given is not None and given.isdecimal() else 1.0


def named_error(content: object, *, status: int) -> QuothError:
    """Make the error that a refusal names; one that only a server can have is a `ServerError`.

    What stands between client and server may refuse in another way, without a name.

    >>> named_error({"error": {"kind": "FilterError", "message": "year > what?"}}, status=400)
    FilterError('year > what?')
    >>> named_error("Bad Gateway", status=502)
    ServerError('the server refused with status 502 and gave no reason')
    """
    record = content.get("error") if isinstance(content, dict) else None
    if not isinstance(record, dict):
        message = f"the server refused with status {status} and gave no reason"
        return ServerError(message, status=status)
    kind, message = str(record.get("kind")), str(record.get("message"))
    known = getattr(errors, kind, None)
    if isinstance(known, type) and issubclass(known, QuothError):
        return known(message)
    return ServerError(message, status=status, request_id=str(record.get("request_id")))


def _read_json(data: bytes) -> object:
    """Read JSON; None where it is none."""
    try:
        return json.loads(data)
    except ValueError:
        return None


def _read_object(data: bytes, *, url: str) -> dict[str, Any]:
    found = _read_json(data)
    if not isinstance(found, dict):
        raise ServerError(f"{url} answered with something that is no JSON object; is it Quoth?")
    return found
