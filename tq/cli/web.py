"""`tq web`: serves the REST API of a queue from a process of its own."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from tq.cli.exit_codes import OK
from tq.errors import InvalidOption

if TYPE_CHECKING:
    from tq.queue import TaskQueue

_EXPLAINED = """
Without a token it answers this machine alone, under its loopback address. For
any other address it needs one, better in TQ_WEB_TOKEN than on the command line,
where other users of the machine can read it. It speaks HTTP: put a proxy that
speaks HTTPS in front of it, and have the proxy hand on the Host header.

  tq web --database tasks.db
  TQ_WEB_TOKEN=… tq web --host 0.0.0.0 --allow-host tasks.example.com"""

_STOP_SECONDS = 5


def configure(parser: ArgumentParser) -> None:
    parser.description = f"{parser.description}\n{_EXPLAINED}"
    add = parser.add_argument
    add("--database", help="a path or postgresql://… (default: $TQ_DATABASE_URL, else tq.db)")
    add("--schema", help="on PostgreSQL, the schema that holds the queue (default: tq)")
    add("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
    add("--port", type=int, default=8787, help="the port; 0 finds a free one (default: 8787)")
    add("--token", help="let in whoever sends it (default: $TQ_WEB_TOKEN, else none)")
    add("--read-only", action="store_true", help="show everything, change nothing")
    add("--allow-host", action="append", default=[], metavar="NAME", help="a name it may be called by; repeatable")
    add("--show-secrets", action="store_true", help="show what stands under keys such as password and token")
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    from tq.queue import TaskQueue
    from tq.web import app

    token = arguments.token if arguments.token is not None else os.environ.get("TQ_WEB_TOKEN")
    _check(arguments.host, arguments.port, token)
    hosts = [*arguments.allow_host, *_own_names(arguments.host)]
    with_token: Any = {} if token is None else {"token": token}
    queue = TaskQueue()
    application = app(
        queue, hosts=hosts, read_only=arguments.read_only, show_secrets=arguments.show_secrets, **with_token
    )
    queue.init(arguments.database, schema=arguments.schema)
    try:
        _serve(queue, application, arguments.host, arguments.port)
    finally:
        queue.stop()
    return OK


def _check(host: str, port: int, token: str | None) -> None:
    if not 0 <= port < 2**16:
        raise InvalidOption(f"--port {port}: give a number from 0 to 65535")
    if token is None and not _is_loopback(host):
        raise InvalidOption(
            f"--host {host}: others can reach that address, so it needs a token: set TQ_WEB_TOKEN, or give --token"
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _own_names(host: str) -> list[str]:
    """The name under which it is reached, where the address to listen on is one."""
    return [] if host in ("0.0.0.0", "::", "") else [host]  # noqa: S104 (compared, not bound)


def _serve(queue: TaskQueue, application: Any, host: str, port: int) -> None:
    import uvicorn

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: Any) -> None:
            application.state.events.close()
            super().handle_exit(sig, frame)

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family)
    name = f"[{host}]" if ":" in host else host
    print(f"{queue!r} is at http://{name}:{listener.getsockname()[1]}/api/task-queue/; Ctrl-C ends it", flush=True)
    config = uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        proxy_headers=False,  # whoever sends them could say that they are this machine
        server_header=False,
        timeout_graceful_shutdown=_STOP_SECONDS,
        lifespan="off",
    )
    # uvicorn raises the signal again when it has stopped: SIGTERM is what ends it, and no trouble.
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        Server(config).run(sockets=[listener])
    finally:
        signal.signal(signal.SIGTERM, before)
