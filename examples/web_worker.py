"""The worker process of web_app.py: it runs what the web application adds.

Run it:  python examples/web_worker.py web.db

Start as many as you like, on the same file: each task is run by one of them. Ctrl-C, or SIGTERM, lets it finish
what runs and ends it. Kill it harder, and the next worker takes over what it left.
"""

import logging
import sys

from tq import tq

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")


@tq.worker("welcome", worker_count=4, timeout=30)
def welcome(who):
    logging.info("preparing a welcome for %s", who["name"])
    return f"Welcome, {who['name']}!"


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("give the web application's database: python examples/web_worker.py web.db")
    logging.info("waiting for tasks; Ctrl-C ends it")
    tq.init(sys.argv[1])
    tq.run()
    logging.info("finished what was running, and ended")
