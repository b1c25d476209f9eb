"""The description of the API as it is committed. Write it anew:  python -m tests.web.openapi > docs/openapi.json"""

from __future__ import annotations

import json

from fastapi.routing import APIRoute

from tq import TaskQueue, web
from tq.web.description import described


def text() -> str:
    routes = [route for route in web.router(TaskQueue()).routes if isinstance(route, APIRoute)]
    return json.dumps(described(routes), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(text(), end="")
