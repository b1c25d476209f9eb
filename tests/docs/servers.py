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
        self._pages: dict[str, str] = {}  # by the real address, as tq shows the one on the page
        self._databases = ExitStack()

    def real(self, text: str) -> str:
        """What a page says, with the address of the real server."""
        return _ADDRESS.sub(lambda found: self._url(found["database"], found[0]), text)

    def as_written(self, text: str) -> str:
        """What tq says, with the address that is on the page."""
        for url, on_page in self._pages.items():
            for address in (url, shown(url)):
                text = text.replace(address, on_page)
        return text

    def _url(self, name: str, on_page: str) -> str:
        if name not in self._urls:
            self._urls[name] = self._databases.enter_context(new_database())
            self._pages[self._urls[name]] = shown(on_page)
        return self._urls[name]

    def close(self) -> None:
        self._databases.close()
