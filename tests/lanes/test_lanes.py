"""Each type has its lane: functions have threads of their own, coroutines share one loop."""

from __future__ import annotations

from tests.lanes.lane_rooms import Room
from tq.lanes.lanes import HandlerLanes
from tq.lanes.loop import LoopLane
from tq.lanes.thread import ThreadLane
from tq.models import TaskType


def test_functions_have_a_lane_for_each_type_and_coroutines_share_one():
    lanes = HandlerLanes(Room().parts)
    email, sms = TaskType("email", handler=print), TaskType("sms", handler=print)
    crawl, fetch = TaskType("crawl", handler=print, is_async=True), TaskType("fetch", handler=print, is_async=True)
    assert lanes.all() == []
    assert isinstance(lanes.lane_of(email), ThreadLane)
    assert lanes.lane_of(email) is lanes.lane_of(email) is not lanes.lane_of(sms)
    assert isinstance(lanes.lane_of(crawl), LoopLane)
    assert lanes.lane_of(crawl) is lanes.lane_of(fetch)
    assert lanes.all() == [lanes.lane_of(email), lanes.lane_of(sms), lanes.lane_of(crawl)]
    for lane in lanes.all():
        lane.close()
