"""Stands between tq and a PostgreSQL server, and cuts or freezes a connection at its COMMIT: before the server has got
it, or after, so that the answer is lost."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

_COMMITS = (
    b"COMMIT\0",
    b") FROM accepted\0",
)  # or a single task: its statement commits by itself


class Proxy:
    def __init__(self, url: str) -> None:
        self._url = url
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._faults: list[str] = []  # what happens at the next commits, one after the other
        self._ends: list[socket.socket] = []  # kept, so that a frozen connection stays open
        self.refusing = False
        self.commits = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        name = urlsplit(self._url).path
        return f"postgresql://{urlsplit(self._url).username}@127.0.0.1:{self._listening.getsockname()[1]}{name}"

    def at_next_commits(self, *faults: str) -> None:
        """`cut-before`, `cut-after` (the answer is lost), `freeze` (neither side hears of the other) or `pass`."""
        self._faults = list(faults)

    @property
    def struck(self) -> bool:
        return not self._faults

    def close(self) -> None:
        for end in (self._listening, *self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listening.accept()
                if self.refusing:
                    client.close()
                else:
                    self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        try:
            server = _reach(self._url)
        except OSError:
            client.close()
            return
        self._ends += [client, server]
        threading.Thread(target=self._forward_to_server, args=(client, server), daemon=True).start()
        threading.Thread(target=_forward, args=(server, client), daemon=True).start()

    def _forward_to_server(self, client: socket.socket, server: socket.socket) -> None:
        for data in _pieces(client):
            fault = self._next_fault() if any(each in data for each in _COMMITS) else "pass"
            if fault == "freeze":
                return
            if fault == "cut-before":
                break
            if fault == "cut-after":
                _hang_up(client)
            with contextlib.suppress(OSError):  # it has hung up, or the test has ended
                server.sendall(data)
        _hang_up(client)
        _hang_up(server, socket.SHUT_WR)  # what it has got it reads to the end

    def _next_fault(self) -> str:
        self.commits += 1
        return self._faults.pop(0) if self._faults else "pass"


def _reach(url: str) -> socket.socket:
    parts = urlsplit(url)
    folder = parse_qs(parts.query).get("host")
    if not folder:
        return socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 5432))
    server = socket.socket(socket.AF_UNIX)
    server.connect(f"{folder[0]}/.s.PGSQL.{parts.port or 5432}")
    return server


def _pieces(source: socket.socket) -> Iterator[bytes]:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            yield data


def _forward(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        for data in _pieces(source):
            target.sendall(data)
    _hang_up(target)


def _hang_up(end: socket.socket, direction: int = socket.SHUT_RDWR) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(direction)
