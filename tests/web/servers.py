"""Real servers for tests: an application on a port of its own, for as long as a `with` block lasts."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn


@contextmanager
def serving(application: Any) -> Iterator[str]:
    """The address at which the application is served."""
    config = uvicorn.Config(application, log_config=None, access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        application.state.events.close()
        server.should_exit = True
        thread.join(60)
        listener.close()
    assert not thread.is_alive()
