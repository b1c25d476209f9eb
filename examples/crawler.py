"""A crawler: coroutines as workers, twenty pages at a time, and tasks that add tasks.

Run it:  python examples/crawler.py [database]

It crawls a small web site that it starts itself on this machine; no other network is used.
A page that many others link to is fetched once, because its address is the task's key.
"""

import asyncio
import re
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from tq import tq

PAGES = 15


class Site(BaseHTTPRequestHandler):
    """Page n links to pages 2n and 2n+1, and back to page 1."""

    def do_GET(self):
        number = int(self.path.strip("/") or 1)
        links = "".join(f'<a href="/{n}">{n}</a>' for n in (1, 2 * number, 2 * number + 1) if n <= PAGES)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"<title>Page {number}</title>{links}".encode())

    def log_message(self, *_):
        pass


async def fetch(url):
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(f"GET {where.path} HTTP/1.0\r\nHost: {where.netloc}\r\n\r\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return text


async def crawl(url):
    page = await fetch(url)
    for link in re.findall(r'href="([^"]+)"', page):
        found = urljoin(url, link)
        await tq("crawl").aadd(found, key=found)  # a key that is known adds nothing
    title = re.search("<title>(.*)</title>", page)[1]
    print(f"{title}: {url}", flush=True)
    return title


def main(database):
    site = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    home = f"http://127.0.0.1:{site.server_port}/1"

    tq.init(database)
    tq("crawl").set_worker(crawl).set_worker_count(20).set_timeout(10)
    tq("crawl").add(home, key=home)
    tq.join()
    print("pages:", tq.stats()["success"])
    tq.stop()
    site.shutdown()
    site.server_close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1] if len(sys.argv) > 1 else Path(folder) / "tasks.db")
