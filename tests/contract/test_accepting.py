"""Accepting tasks: all or none, as they were given, and one for each key."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.vocabulary import NOW, add, claim, ids, numbered, spec, task_id
from tq.storage.store import Store

NO_SPACE_IN_THE_ROW = ["x" * 1024, "x" * 1025, "ж" * 2000, "𝄞" * 100_000, "\\\"'\n\t" * 3000]


def test_an_accepted_task_is_ready_and_untouched(store: Store):
    assert add(store, 1, input_='{"to":"a@example.com"}') == numbered(1)
    task = store.get(task_id(1))
    assert task is not None
    assert (task.type, task.input, task.status) == ("email", {"to": "a@example.com"}, "to-do")
    assert (task.version, task.attempts, task.crashes, task.priority) == (0, 0, 0, 0)
    assert (task.created_at, task.updated_at) == (NOW, NOW)
    assert {task.output, task.error, task.run_after, task.completed_at, task.last_attempt_at, task.worker_id} == {None}
    assert {task.key, task.max_attempts, task.timeout} == {None}
    assert not task.finished


def test_the_options_of_a_task_are_kept(store: Store):
    store.add([spec(1, run_after=NOW + 0.25, priority=-7, key="k", max_attempts=9, timeout=1.5)])
    task = store.get(task_id(1))
    assert task is not None
    assert (task.run_after, task.priority, task.key, task.max_attempts, task.timeout) == (NOW + 0.25, -7, "k", 9, 1.5)


def test_many_tasks_are_answered_for_in_their_order(store: Store):
    assert add(store, 3, 1, 2) == numbered(3, 1, 2)


def test_no_tasks_is_a_number_of_tasks_too(store: Store):
    assert store.add([]) == []
    assert not store.unfinished()


def test_tasks_are_accepted_all_or_none(store: Store):
    def tasks():
        yield spec(1)
        yield spec(2, input_=json.dumps("x" * 5000))
        raise RuntimeError("the third cannot be made")

    class ThirdIsBroken(list):
        __iter__ = staticmethod(tasks)

    with pytest.raises(RuntimeError, match="the third"):
        store.add(ThirdIsBroken())
    assert store.get(task_id(1)) is None
    assert store.stats()["byType"] == {}
    assert add(store, 1, 2) == numbered(1, 2)  # nothing of the first try is in the way


def test_a_task_that_is_accepted_twice_exists_once(store: Store):
    add(store, 1)
    assert add(store, 1) == numbered(1)
    assert store.stats()["to-do"] == 1


# --- keys ----------------------------------------------------------------------------------------------------------


def test_a_second_task_with_the_same_key_is_answered_with_the_first(store: Store):
    add(store, 1, key="invoice-7")
    assert add(store, 2, key="invoice-7", input_='{"second":true}') == numbered(1)
    assert store.get(task_id(2)) is None
    assert store.stats()["to-do"] == 1


def test_a_key_holds_within_one_call(store: Store):
    assert add(store, 1, 2, 3, key="same") == numbered(1, 1, 1)


def test_a_key_holds_for_its_type_alone(store: Store):
    add(store, 1, key="same")
    assert add(store, 2, type_="sms", key="same") == numbered(2)


def test_a_key_still_holds_when_its_task_runs(store: Store):
    add(store, 1, key="same")
    claim(store)
    assert add(store, 2, key="same") == numbered(1)


def test_tasks_without_a_key_do_not_collide(store: Store):
    assert add(store, 1, 2) == numbered(1, 2)


def test_the_long_input_of_a_refused_task_leaves_nothing(store: Store):
    add(store, 1, key="same", input_=json.dumps("first" * 1000))
    add(store, 2, key="same", input_=json.dumps("second" * 1000))
    assert json.loads(claim(store)[0].input) == "first" * 1000
    assert add(store, 2) == numbered(2)


# --- inputs, to the byte -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", NO_SPACE_IN_THE_ROW, ids=len)
def test_a_long_input_comes_back_to_the_byte(store: Store, text: str):
    written = json.dumps(text, ensure_ascii=False)
    add(store, 1, input_=written)
    assert claim(store)[0].input == written
    task = store.get(task_id(1))
    assert task is not None and task.input == text


def test_long_and_short_inputs_keep_to_their_tasks(store: Store):
    texts = [json.dumps(f"{number}" * (2000 if number % 2 else 1)) for number in range(20)]
    store.add([spec(number, input_=text) for number, text in enumerate(texts)])
    assert [task.input for task in claim(store)] == texts


def test_any_json_comes_back_to_the_byte(store: Store):
    numbers = iter(range(1_000_000))

    @given(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=3000))
    def comes_back(text: str) -> None:
        number = next(numbers)
        written = json.dumps(text, ensure_ascii=False)
        add(store, number, input_=written)
        (task,) = claim(store)
        assert (task.id, task.input) == (task_id(number), written)

    comes_back()


def test_types_are_told_apart_to_the_letter(store: Store):
    types = ["email", "Email", "e-mail", "é", "e\u0301", "email "]
    store.add([spec(number, type_) for number, type_ in enumerate(types)])
    assert [ids(claim(store, type_=type_)) for type_ in types] == [numbered(number) for number in range(len(types))]
