"""SQL as prose: `.sql` files of named statements, and numbered migrations, one folder for each dialect."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent
_MARK = "-- name: "


@cache
def statements(dialect: str, file: str = "statements") -> dict[str, str]:
    """The dialect's statements by name: those of the store, or from another file those of its driver alone."""
    text = (_HERE / dialect / f"{file}.sql").read_text(encoding="utf-8")
    return dict(_parse(block) for block in text.split(_MARK)[1:])


def _parse(block: str) -> tuple[str, str]:
    name, _, rest = block.partition("\n")
    lines = [line for line in rest.splitlines() if not line.startswith("--")]
    return name.strip(), "\n".join(lines).strip().rstrip(";")


@cache
def migrations(dialect: str) -> list[tuple[int, str]]:
    """The dialect's migrations as (version, script), in order."""
    files = sorted((_HERE / dialect / "migrations").glob("[0-9]*.sql"))
    return [(int(file.name[:4]), file.read_text(encoding="utf-8")) for file in files]
