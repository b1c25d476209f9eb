"""The address of a PostgreSQL database as messages may show it: without a password, and without psycopg."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit


def shown(url: str) -> str:
    """Where a queue lives, for people, who may use it as it is where the password comes from elsewhere.

    >>> shown("postgresql://ada:secret@db.example.com:5433/app?sslmode=require")
    'postgresql://ada@db.example.com:5433/app?sslmode=require'
    """
    user_and_password, at, rest = url.partition("://")[2].rpartition("@")  # a password may hold anything
    parts = urlsplit(f"postgresql://{rest}")
    options = [(name, value) for name, value in parse_qsl(parts.query) if "password" not in name]
    query = f"?{urlencode(options, safe='/:,')}" if options else ""
    return f"postgresql://{user_and_password.partition(':')[0]}{at}{parts.netloc}{parts.path}{query}"
