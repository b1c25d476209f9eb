"""The server that pages speak of, db.example.com, and the real one that stands in for it while a page is played."""

from __future__ import annotations

import re
from contextlib import ExitStack

from tests.postgres import new_database
from tq.storage.address import shown

_ADDRESS = re.compile(r"postgresql://(?:[\w:.-]+@)?db\.example\.com(?::\d+)?/(?P<database>\w+)(?:\?[\w=&%/.-]*)?")


class Servers:
    """A database for each one that a page names, empty when it is named first."""

    def __init__(self) -> None:
        self._urls: dict[str, str] = {}
        self._databases = ExitStack()

    def real(self, text: str) -> str:
        """What a page says, with the address of the real server."""
        return _ADDRESS.sub(lambda found: self._url(found["database"]), text)

    def as_written(self, text: str) -> str:
        """What tq says, with the address that is on the page."""
        for name, url in self._urls.items():
            for address in (url, shown(url)):
                text = text.replace(address, f"postgresql://db.example.com/{name}")
        return text

    def _url(self, name: str) -> str:
        if name not in self._urls:
            self._urls[name] = self._databases.enter_context(new_database())
        return self._urls[name]

    def close(self) -> None:
        self._databases.close()
