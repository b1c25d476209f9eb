"""A web application that adds tasks; web_worker.py runs them in a process of its own.

Run it:  python examples/web_app.py web.db [port]       in one terminal
         python examples/web_worker.py web.db           in another one
Try it:  curl -d 'name=Ada' http://127.0.0.1:8000/      answers at once, with the task's id
         curl http://127.0.0.1:8000/<id>                tells what became of it

Plain WSGI from the standard library; in Flask or Django the two tq calls are the same. Ctrl-C ends it.
"""

import contextlib
import json
import sys
import threading
from urllib.parse import parse_qs
from wsgiref.simple_server import make_server

from tq import TqError, tq

STATUS = {200: "200 OK", 202: "202 Accepted", 404: "404 Not Found"}


def add(body):
    name = parse_qs(body).get("name", ["nobody"])[0]
    handle = tq("welcome").submit({"name": name})  # no worker here: the task waits in the file
    return 202, {"id": handle.id}


def show(task_id):
    try:
        task = tq.get(task_id)
    except TqError as error:
        return 404, {"error": str(error)}
    return 200, {"status": task.status, "output": task.output}


def app(request, start_response):
    if request["REQUEST_METHOD"] == "POST":
        length = int(request.get("CONTENT_LENGTH") or 0)
        status, answer = add(request["wsgi.input"].read(length).decode())
    else:
        status, answer = show(request["PATH_INFO"].strip("/"))
    start_response(STATUS[status], [("Content-Type", "application/json")])
    return [json.dumps(answer).encode() + b"\n"]


def main(database, port):
    tq.init(database)
    with make_server("127.0.0.1", port, app) as server:
        # In a thread of its own: wsgiref would swallow a Ctrl-C that comes in the middle of a request.
        threading.Thread(target=server.serve_forever).start()
        print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
        server.shutdown()
    tq.stop()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("give a database that the worker gets too: python examples/web_app.py web.db [port]")
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8000)
