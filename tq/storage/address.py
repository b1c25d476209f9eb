"""The address of a PostgreSQL database as messages may show it: without a password, and without psycopg."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit


def shown(url: str) -> str:
    """Where a queue lives, for people.

    >>> shown("postgresql://ada:secret@db.example.com:5433/app?sslmode=require")
    'postgresql://db.example.com:5433/app'
    """
    parts = urlsplit("postgresql://" + url.partition("://")[2].rpartition("@")[2])  # a password may hold anything
    host = parts.netloc or parse_qs(parts.query).get("host", ["localhost"])[0]
    return f"postgresql://{host}{parts.path}"
