"""E-mail at a limited rate: ten messages, three workers, and at most five messages per second.

Run it:  python examples/email_rate_limit.py [database]

No mail is sent, the worker writes a line with the milliseconds since the start. The limit holds over all processes
that use the database: start the program twice with the same file, and both together send five per second.
"""

import logging
import sys
import tempfile
from pathlib import Path

from tq import PermanentError, tq

# print() from several threads may mix its lines; logging does not.
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(relativeCreated)5d ms  %(message)s")


def send(message):
    if "@" not in message["to"]:
        raise PermanentError(f"{message['to']} is no address")  # no retry can help: the task fails at once
    logging.info("sent %r to %s", message["subject"], message["to"])


def main(database):
    tq.init(database)
    tq("email").set_worker(send).set_worker_count(3).set_rate_limit(5).set_timeout(30)

    # One transaction for all of them: ten messages are accepted, or none.
    tq("email").add_many({"to": f"user{n}@example.com", "subject": "Welcome"} for n in range(1, 11))
    wrong = tq("email").submit({"to": "nobody", "subject": "Welcome"})

    tq.join()
    print(f"{wrong.status()}: {wrong.task().error}")
    print("sent:", tq.stats()["byType"]["email"]["success"])
    tq.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1] if len(sys.argv) > 1 else Path(folder) / "tasks.db")
