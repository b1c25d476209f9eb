"""A Flask application with tq's REST API beside it, below /internal, for those who know the token.

Run it:  TQ_WEB_TOKEN=a-long-secret python examples/api_in_flask.py web.db [port]
Try it:  curl -X POST http://127.0.0.1:8000/welcome/Ada
         curl -H 'Authorization: Bearer a-long-secret' http://127.0.0.1:8000/internal/api/task-queue/tasks

Needs the `web` extra, and Flask. In production, the last lines are those of your WSGI server: app is all that it needs.
"""

import os
import sys

from flask import Flask
from werkzeug.serving import make_server

from tq import tq, web

app = Flask("site")


@app.post("/welcome/<name>")
def welcome(name):
    return {"id": tq("welcome").submit({"name": name}).id}  # no worker here: see web_worker.py


# Without a token it would answer this machine alone.
token = {"token": os.environ["TQ_WEB_TOKEN"]} if "TQ_WEB_TOKEN" in os.environ else {}
app.wsgi_app = web.wsgi(tq, beside=app.wsgi_app, prefix="/internal", **token)


def main(database, port):
    tq.init(database)
    server = make_server("127.0.0.1", port, app, threaded=True)
    print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()  # until Ctrl-C
    tq.stop()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("give a database: python examples/api_in_flask.py web.db [port]")
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8000)
