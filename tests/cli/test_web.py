"""`tq web` serves a queue from a process of its own, keeps out whom it should, and ends when it is told to."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import DEADLINE_SECONDS, command, environment, tq
from tests.postgres import new_schema, server_url
from tq import TaskQueue

TOKEN = "a-token-of-the-tests"
API = "/api/task-queue"


class Server:
    """A running `tq web`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.said = process.stdout.readline()
        assert self.said, process.communicate()
        self.port = int(self.said.partition("http://")[2].partition("/")[0].rpartition(":")[2])

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        kind = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, API + path, None if body is None else json.dumps(body), {**kind, **headers})
        answer = connection.getresponse()
        status, told = answer.status, json.loads(answer.read())
        connection.close()
        return status, told

    def end(self, number: signal.Signals) -> tuple[int, str]:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=DEADLINE_SECONDS)
        return self.process.returncode, out + err


@contextmanager
def web(folder: Path, *arguments: str, **changes: str) -> Iterator[Server]:
    with subprocess.Popen(
        command("web", "--port", "0", *arguments),
        cwd=folder,
        env=environment(folder, changes),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Server(process)
        finally:
            if process.poll() is None:
                process.kill()


def test_it_serves_the_queue_that_it_is_given(folder: Path, queue: TaskQueue):
    with web(folder, "--database", "tasks.db") as server:
        assert "tasks.db" in server.said
        assert server.ask("POST", "/tasks", {"type": "email", "input": 1})[0] == 201
        assert queue.list().tasks[0].input == 1
        assert server.ask("GET", "/tasks", Host="evil.example.com")[0] == 403
        assert server.end(signal.SIGTERM) == (0, "")


def test_it_serves_a_schema_on_a_server(folder: Path):
    schema = new_schema()
    with web(folder, "--database", server_url(), "--schema", schema) as server:
        server.ask("POST", "/tasks", {"type": "email", "input": 1})
        queue = TaskQueue().init(server_url(), schema=schema)
        assert queue.list().tasks[0].input == 1
        queue.stop()
        assert server.end(signal.SIGTERM) == (0, "")


def test_without_a_name_it_serves_the_one_that_programs_use(folder: Path):
    with web(folder, TQ_DATABASE_URL="named.db") as server:
        assert server.ask("GET", "/tasks")[0] == 200
        assert (folder / "named.db").exists()


@pytest.mark.parametrize("by", ["option", "variable"])
def test_it_asks_for_its_token(by: str, folder: Path):
    arguments, changes = (["--token", TOKEN], {}) if by == "option" else ([], {"TQ_WEB_TOKEN": TOKEN})
    with web(folder, *arguments, **changes) as server:
        assert server.ask("GET", "/tasks")[0] == 401
        assert server.ask("GET", "/tasks", Authorization="Bearer wrong")[0] == 401
        assert server.ask("GET", "/tasks", Authorization=f"Bearer {TOKEN}")[0] == 200
        assert server.ask("GET", "/healthz")[0] == 200


def test_it_shows_and_changes_nothing(folder: Path):
    with web(folder, "--read-only") as server:
        assert server.ask("GET", "/tasks")[0] == 200
        assert server.ask("POST", "/tasks/pause")[1]["error"]["code"] == "read_only"


def test_with_a_token_it_may_be_reached_from_elsewhere_by_its_names(folder: Path):
    arguments = ("--host", "0.0.0.0", "--allow-host", "tasks.example.com")
    with web(folder, *arguments, TQ_WEB_TOKEN=TOKEN) as server:
        token = f"Bearer {TOKEN}"
        assert server.ask("GET", "/tasks", Authorization=token)[0] == 200
        assert server.ask("GET", "/tasks", Authorization=token, Host="tasks.example.com")[0] == 200
        assert server.ask("GET", "/tasks", Authorization=token, Host="10.0.0.5")[0] == 403


def test_no_header_makes_another_machine_this_one(folder: Path):
    with web(folder) as server:
        assert server.ask("GET", "/tasks", **{"X-Forwarded-For": "127.0.0.1"})[0] == 401


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_once_while_somebody_listens(number: signal.Signals, folder: Path):
    with web(folder) as server, socket.create_connection(("127.0.0.1", server.port), DEADLINE_SECONDS) as listener:
        listener.sendall(f"GET {API}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        received = b""
        while b"event: stats" not in received:
            received += listener.recv(65536)
        expected = (0, "") if number == signal.SIGTERM else (130, "tq: stopped\n")
        assert server.end(number) == expected


@pytest.mark.parametrize(
    ("arguments", "variable", "sentence"),
    [
        (["--host", "0.0.0.0"], None, "needs a token: set TQ_WEB_TOKEN, or give --token"),
        (["--host", "::"], None, "needs a token"),
        (["--host", "example.com"], None, "needs a token"),
        (["--host", "0.0.0.0", "--token", ""], None, "token=…: give a text"),
        (["--host", "0.0.0.0"], "", "token=…: give a text"),
        (["--port", "99999"], None, "give a number from 0 to 65535"),
        (["--allow-host", "http://a"], None, "give names as browsers show them"),
        (["--database", "/nowhere/at/all.db"], None, "/nowhere/at does not exist"),
    ],
    ids=str,
)
def test_it_does_not_start_where_it_should_not(arguments: list[str], variable: str | None, sentence: str, folder: Path):
    changes = {} if variable is None else {"TQ_WEB_TOKEN": variable}
    done = tq("web", *arguments, folder=folder, **changes)
    assert (done.returncode, done.stdout) == (1, "")
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(folder.iterdir()) == [], "nothing was made before it knew that it may start"


def test_a_port_that_is_taken_is_said_in_a_sentence(folder: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = tq("web", "--port", str(taken.getsockname()[1]), folder=folder)
    assert done.returncode == 1
    assert done.stderr.startswith("tq: Address already in use")
    assert len(done.stderr.splitlines()) == 1


def test_without_its_packages_it_says_what_to_install(folder: Path):
    program = "import sys; sys.modules['fastapi'] = None; from tq.cli import main; sys.exit(main())"
    done = tq("web", folder=folder, program=program)
    assert done.returncode == 1
    assert "pip install 'tq-tasks[web]'" in done.stderr
