"""One task, from `add` to its result, in a folder of its own. Run by the installed tq, from outside the checkout."""

from __future__ import annotations

import json
import sys
import sysconfig
import tempfile
from pathlib import Path

BEFORE = set(sys.modules)

from tq import tq  # noqa: E402


def greet(who: dict[str, str]) -> str:
    return f"hello, {who['name']}"


def third_party() -> list[str]:
    """The installed packages that importing and running tq has loaded."""
    places = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    loaded = {name: getattr(sys.modules[name], "__file__", None) or "" for name in set(sys.modules) - BEFORE}
    return sorted({name.split(".")[0] for name, file in loaded.items() if file.startswith(places)} - {"tq"})


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tq.init(Path(folder) / "tasks.db")
        tq("greet").set_worker(greet)
        result = tq("greet").submit({"name": "world"}).result(timeout=30)
        tq.stop()
    print(json.dumps({"result": result, "third_party": third_party(), "tq": sys.modules["tq"].__file__}))
    if result != "hello, world":
        raise SystemExit(f"the task returned {result!r}")


if __name__ == "__main__":
    main()
