"""A Django project in one file, with tq's REST API beside it, below /internal.

Run it:  python examples/api_in_django.py web.db [port]
Try it:  curl http://127.0.0.1:8000/welcome/Ada
         curl http://127.0.0.1:8000/internal/api/task-queue/tasks

Needs the `web` extra, and Django. In a project of yours, the two lines that make `application` stand in its wsgi.py.
"""

import contextlib
import sys
import threading
from wsgiref.simple_server import make_server

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import JsonResponse
from django.urls import path

from tq import tq, web


def welcome(request, name):
    return JsonResponse({"id": tq("welcome").submit({"name": name}).id})  # no worker here: see web_worker.py


urlpatterns = [path("welcome/<name>", welcome)]
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1"], SECRET_KEY="yours")  # noqa: S106

application = get_wsgi_application()
application = web.wsgi(tq, beside=application, prefix="/internal")  # without token= this machine alone is let in


def main(database, port):
    tq.init(database)
    with make_server("127.0.0.1", port, application) as server:
        # In a thread of its own: wsgiref would swallow a Ctrl-C that comes in the middle of a request.
        threading.Thread(target=server.serve_forever).start()
        print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
        server.shutdown()
    tq.stop()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("give a database: python examples/api_in_django.py web.db [port]")
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8000)
