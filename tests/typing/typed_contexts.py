"""What mypy says to a program that names its payload types. Never run: `tests/test_typing.py` has mypy read it.

A line that mypy must refuse ends with the code of its error. All other lines are right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import NotRequired, TypedDict, assert_type

from tq import TaskHandle, TaskTypeContext, tq


class CrawlPayload(TypedDict):
    url: str
    depth: NotRequired[int]


@dataclass
class Point:
    x: float
    y: float = 0.0


def crawl(payload: CrawlPayload) -> int:
    return len(payload["url"]) + payload.get("depth", 0)


async def crawl_later(payload: CrawlPayload) -> str:
    return payload["url"]


def draw(point: Point) -> None: ...


def misread(payload: CrawlPayload) -> None:
    print(payload["ulr"])  # E: typeddict-item


# --- the context carries its payload -----------------------------------------------------------------------------

assert_type(tq("crawl", CrawlPayload), TaskTypeContext[CrawlPayload])
assert_type(tq("crawl", CrawlPayload).set_worker_count(2).set_timeout(5), TaskTypeContext[CrawlPayload])
assert_type(tq("draw", Point), TaskTypeContext[Point])
assert_type(tq("anything"), TaskTypeContext[Any])

# --- add ---------------------------------------------------------------------------------------------------------

tq("crawl", CrawlPayload).add({"url": "x"})
tq("crawl", CrawlPayload).add({"url": "x", "depth": 2}, priority=1).add({"url": "y"})
tq("crawl", CrawlPayload).add({"url": 1})  # E: typeddict-item
tq("crawl", CrawlPayload).add({})  # E: typeddict-item
tq("crawl", CrawlPayload).add({"url": "x", "wrong": 1})  # E: typeddict-unknown-key
tq("crawl", CrawlPayload).add("x")  # E: arg-type
tq("crawl", CrawlPayload).add({"url": "x"}).add({"url": None})  # E: typeddict-item
tq("crawl", CrawlPayload).add()  # E: call-arg
tq("crawl", CrawlPayload).add({"url": "x"}, prioritty=1)  # E: call-arg
tq("crawl", CrawlPayload).add({"url": "x"}, priority="high")  # E: arg-type

# --- add_many ----------------------------------------------------------------------------------------------------

tq("crawl", CrawlPayload).add_many([{"url": "x"}, {"url": "y", "depth": 1}])
tq("crawl", CrawlPayload).add_many(CrawlPayload(url=url) for url in ("x", "y"))
tq("crawl", CrawlPayload).add_many([{"url": "x"}, {"url": 2}])  # E: typeddict-item
tq("crawl", CrawlPayload).add_many({"url": "x"})  # E: dict-item

# --- submit ------------------------------------------------------------------------------------------------------

handle: TaskHandle = tq("crawl", CrawlPayload).submit({"url": "x"})
assert_type(tq("crawl", CrawlPayload).submit({"url": "x"}), TaskHandle)
number: int = tq("crawl", CrawlPayload).submit({"url": "x"})  # E: assignment
tq("crawl", CrawlPayload).submit({"url": "x", "link": "y"})  # E: typeddict-unknown-key
tq("crawl", CrawlPayload).submit({"url": "x"}).add({"url": "y"})  # E: attr-defined

# --- set_worker --------------------------------------------------------------------------------------------------

tq("crawl", CrawlPayload).set_worker(crawl)
tq("crawl", CrawlPayload).set_worker(crawl_later).set_rate_limit(5).add({"url": "x"})
tq("crawl", CrawlPayload).set_worker(lambda payload: payload["url"])
tq("crawl", CrawlPayload).set_worker(draw)  # E: arg-type
tq("crawl", CrawlPayload).set_worker(crawl({"url": "x"}))  # E: arg-type
tq("crawl", CrawlPayload).set_worker(lambda payload: payload["ulr"])  # E: typeddict-item
tq("crawl", CrawlPayload).set_worker(crawl).add({"url": 1})  # E: typeddict-item

# --- dataclasses, plain types, and no type at all ----------------------------------------------------------------

tq("draw", Point).set_worker(draw).add(Point(1)).add_many([Point(1, 2), Point(3)])
tq("draw", Point).add(Point("1"))  # E: arg-type
tq("draw", Point).add(3)  # E: arg-type
tq("count", int).add(3)
tq("count", int).add("3")  # E: arg-type
tq("anything").set_worker(draw).add({"url": 1}).add("x")
