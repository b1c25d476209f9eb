"""A FastAPI application with tq's REST API inside, behind its own login; and a read-only copy that is mounted.

Run it:  python examples/api_in_fastapi.py web.db [port]
Try it:  curl -X POST http://127.0.0.1:8000/welcome/Ada
         curl -H 'X-Key: key-of-ada' http://127.0.0.1:8000/internal/api/task-queue/tasks
         curl http://127.0.0.1:8000/viewer/api/task-queue/tasks/stats

Needs the `web` extra. This process also works on the tasks; web_worker.py shows how to leave that to another one.
"""

import sys

import uvicorn
from fastapi import FastAPI, Request

from tq import tq, web

KEYS = {"key-of-ada": ("ada", "read", "act"), "key-of-bob": ("bob", "read")}  # instead of your site's login


def who(request: Request, needs: str):
    """The name of who asks, if they may do what the route needs: "read" or "act". None refuses."""
    name, *may = KEYS.get(request.headers.get("x-key", ""), ("nobody",))
    return name if needs in may else None


app = FastAPI(title="a site")
app.include_router(web.router(tq, auth=who), prefix="/internal")
app.mount("/viewer", web.app(tq, read_only=True))  # without a login only this machine is let in


@app.post("/welcome/{name}")
def welcome(name: str):  # a plain function, so that the event loop goes on while the task is written
    return {"id": tq("welcome").submit({"name": name}).id}


def greet(visitor):
    return f"Welcome, {visitor['name']}!"


def main(database, port):
    tq.init(database)
    tq("welcome").set_worker(greet)
    print(f"listening on http://127.0.0.1:{port}/", flush=True)
    uvicorn.run(app, port=port, log_level="warning", timeout_graceful_shutdown=5)
    tq.stop()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("give a database: python examples/api_in_fastapi.py web.db [port]")
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8000)
