"""The examples run as they stand, each as a process of its own, and print what they promise."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import Self

EXAMPLES = Path(__file__).parents[1] / "examples"
DEADLINE_SECONDS = 100
ALL = sorted(path.name for path in EXAMPLES.glob("*.py"))
LONGEST = 80  # lines: a page
JSON = {"Content-Type": "application/json"}


def command(name: str, *arguments: object) -> list[str]:
    return [sys.executable, "-W", "error", str(EXAMPLES / name), *map(str, arguments)]


def lines_of(name: str, folder: Path, *arguments: object) -> list[str]:
    environment = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run(
        command(name, *arguments),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


class Running:
    """An example that goes on until it is asked to stop."""

    def __init__(self, name: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            command(name, *arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().rstrip("\n")

    def stop(self, number: signal.Signals) -> tuple[int, str]:
        self.process.send_signal(number)
        said, _ = self.process.communicate(timeout=DEADLINE_SECONDS)
        return self.process.returncode, said


def test_hello(folder: Path):
    assert lines_of("hello.py", folder) == ["hello, world", "tasks that have succeeded so far: 3"]
    assert list(folder.iterdir()) == []


def test_hello_keeps_its_tasks_in_the_file_that_it_is_given(folder: Path):
    lines_of("hello.py", folder, folder / "mine.db")
    assert lines_of("hello.py", folder, folder / "mine.db")[-1] == "tasks that have succeeded so far: 6"


def test_email_rate_limit(folder: Path):
    *sent, wrong, total = lines_of("email_rate_limit.py", folder)
    found = [re.fullmatch(r" *(\d+) ms  sent 'Welcome' to user(\d+)@example.com", line) for line in sent]
    assert sorted(int(each[2]) for each in found if each) == list(range(1, 11))
    assert wrong == "failed: PermanentError: nobody is no address"
    assert total == "sent: 10"
    assert list(folder.iterdir()) == []


def test_crawler(folder: Path):
    *pages, total = lines_of("crawler.py", folder)
    found = Counter(re.fullmatch(r"Page (\d+): http://127\.0\.0\.1:\d+/\1", line)[1] for line in pages)
    assert found == {str(number): 1 for number in range(1, 16)}, "each page once"
    assert total == "pages: 15"
    assert list(folder.iterdir()) == []


def test_scheduled_and_retried(folder: Path):
    lines = lines_of("scheduled_and_retried.py", folder)
    reports = [line.removeprefix("report: ") for line in lines if line.startswith("report: ")]
    assert reports.count("in a second") == 1
    reports.remove("in a second")  # on a slow machine its second may be over before the others have started
    assert reports == ["urgent", "daily", "weekly", "daily, 24 May"]
    charges = Counter(line.split(",")[0] for line in lines if line.startswith("charge: "))
    assert charges == {"charge: good": 1, "charge: busy bank": 2, "charge: shaky line": 3, "charge: expired": 1}
    assert lines[-4:] == [
        "good: paid, attempts: 1",
        "busy bank: paid, attempts: 2",
        "shaky line: paid, attempts: 3",
        "expired: PermanentError: the card has expired, attempts: 1",
    ]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_web_app_and_web_worker(number: signal.Signals, folder: Path):
    database = folder / "web.db"
    with Running("web_app.py", database, 0) as app:
        home = app.line().removeprefix("listening on ")
        task = asked(home, b"name=Ada")["id"]
        assert asked(f"{home}{task}") == {"status": "to-do", "output": None}, "there is no worker yet"
        with Running("web_worker.py", database) as worker:
            assert worker.line() == "waiting for tasks; Ctrl-C ends it"
            assert worker.line() == "preparing a welcome for Ada"
            wait_for_success(f"{home}{task}")
            code, said = worker.stop(number)
            assert code == 0
            assert said.endswith("finished what was running, and ended\n")
        assert asked(f"{home}{task}") == {"status": "success", "output": "Welcome, Ada!"}
        assert app.stop(signal.SIGINT)[0] == 0


def asked(url: str, data: bytes | None = None, **headers: str) -> Any:
    request = urllib.request.Request(url, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return json.load(error)


def wait_for_success(url: str) -> None:
    give_up_at = time.monotonic() + DEADLINE_SECONDS
    while asked(url)["status"] != "success":
        assert time.monotonic() < give_up_at
        time.sleep(0.02)


def refusal(answer: Any) -> str:
    return str(answer["error"]["code"])


def test_api_in_fastapi(folder: Path):
    with Running("api_in_fastapi.py", folder / "web.db", free_port()) as app:
        home = app.line().removeprefix("listening on ")
        wait_until_served(home)
        task = asked(f"{home}welcome/Ada", b"")["id"]
        tasks = f"{home}internal/api/task-queue/tasks"
        ada, bob = {"X-Key": "key-of-ada"}, {"X-Key": "key-of-bob"}
        assert asked(f"{tasks}/{task}", **bob)["input"] == {"name": "Ada"}
        assert refusal(asked(f"{tasks}/pause", b"", **bob, **JSON)) == "forbidden"
        assert asked(f"{tasks}/pause", b"", **ada, **JSON) == {"paused": True, "types": []}
        assert refusal(asked(tasks)) == "forbidden"
        viewer = f"{home}viewer/api/task-queue/tasks"
        assert asked(f"{viewer}/stats")["paused"]
        assert refusal(asked(f"{viewer}/resume", b"", **JSON)) == "read_only"
        asked(f"{tasks}/resume", b"", **ada, **JSON)
        wait_for_success(f"{viewer}/{task}")
        assert asked(f"{viewer}/{task}")["output"] == "Welcome, Ada!"
        app.stop(signal.SIGINT)


def test_api_in_flask(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TQ_WEB_TOKEN", "a-long-secret")
    with Running("api_in_flask.py", folder / "web.db", 0) as app:
        home = app.line().removeprefix("listening on ")
        task = asked(f"{home}welcome/Ada", b"")["id"]
        tasks = f"{home}internal/api/task-queue/tasks"
        assert refusal(asked(tasks)) == "unauthenticated"
        assert asked(f"{tasks}/{task}", Authorization="Bearer a-long-secret")["input"] == {"name": "Ada"}
        app.stop(signal.SIGINT)


def test_api_in_django(folder: Path):
    with Running("api_in_django.py", folder / "web.db", 0) as app:
        home = app.line().removeprefix("listening on ")
        task = asked(f"{home}welcome/Ada")["id"]
        tasks = f"{home}internal/api/task-queue/tasks"
        assert asked(f"{tasks}/{task}")["input"] == {"name": "Ada"}
        assert asked(f"{tasks}/{task}/cancel", b"", **JSON)["status"] == "cancelled"
        assert refusal(asked(tasks, Host="evil.example.com")) == "host_not_allowed"
        app.stop(signal.SIGINT)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def is_served(host: str, port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((host, port)) == 0


def wait_until_served(home: str) -> None:
    give_up_at = time.monotonic() + DEADLINE_SECONDS
    address = home.removeprefix("http://").rstrip("/").split(":")
    while not is_served(address[0], int(address[1])):
        assert time.monotonic() < give_up_at
        time.sleep(0.02)


@pytest.mark.parametrize("name", ["web_app.py", "web_worker.py"])
def test_without_a_database_the_web_examples_say_what_they_need(name: str, folder: Path):
    done = subprocess.run(command(name), cwd=folder, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1
    assert f"python examples/{name} web.db" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", ALL)
def test_an_example_says_how_to_run_it_and_fits_a_page(name: str):
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    assert re.search(rf"Run it:  (\w+=\S+ )?python examples/{name}", text.split('"""')[1])
    assert len(text.splitlines()) <= LONGEST


def test_every_example_is_tested():
    tested = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in ALL if f'("{name}"' not in tested] == []
