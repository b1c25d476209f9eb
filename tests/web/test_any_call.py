"""Any call that the description allows, and many that it forbids, get an answer that it describes (schemathesis)."""

from __future__ import annotations

import json
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.config import GenerationConfig, ProjectConfig, ProjectsConfig, SchemathesisConfig

from tests.web import openapi
from tests.web.clients import TOKEN
from tq import TaskQueue, web
from tq.web import events
from tq.web.access import ROUTES

load_all_checks()
positive_data_acceptance = CHECKS.get_one("positive_data_acceptance")

HEADERS = {"Host": "localhost", "Authorization": f"Bearer {TOKEN}"}
QUICK = 4  # for each operation, in each mode
CAMPAIGN = 150
NEED_ONE = ("delete_tasks", "retry_tasks", "cancel_tasks", "change_type")
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)


@pytest.fixture
def schema(queue: TaskQueue, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(events, "LIFETIME_SECONDS", 0.0)
    queue("email").add_many(range(5))
    queue.cancel(type="email", text="3")
    # A NUL in a text is refused, which no schema says of the deeper parts of an input.
    generation = GenerationConfig(allow_x00=False, with_security_parameters=False)
    config = SchemathesisConfig(projects=ProjectsConfig(default=ProjectConfig(generation=generation)))
    # From the committed text: of a description that it has fetched, schemathesis leaves out where it was.
    loaded = schemathesis.openapi.from_dict(json.loads(openapi.text()), config=config)
    loaded.app = web.app(queue, token=TOKEN)
    return loaded


def calls_of(operation: Any, mode: GenerationMode, examples: int) -> int:
    """Make so many calls of an operation, and check each answer in every way; answers with how many were made."""
    made = 0

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def make(case: schemathesis.Case) -> None:
        nonlocal made
        made += 1
        answer = case.call(headers=HEADERS)
        case.validate_response(answer, excluded_checks=beyond_the_schema(operation, answer))

    try:
        make()
    except Unsatisfiable:  # a route that takes nothing cannot be called wrongly
        assert mode is GenerationMode.NEGATIVE
    return made


def beyond_the_schema(operation: Any, answer: Any) -> list[Any]:
    """What no schema can say: that some filter or change has to be given, and what is printable."""
    error = answer.json()["error"] if answer.status_code == 422 else {"code": "", "message": ""}
    wants_one = error["code"] == "invalid_option" and operation.definition.raw["operationId"] in NEED_ONE
    return [positive_data_acceptance] if wants_one or "printable characters" in error["message"] else []


def test_every_operation_answers_as_it_is_described(schema: Any):
    for operation in schema.get_all_operations():
        for mode in MODES:
            calls_of(operation.ok(), mode, QUICK)


@pytest.mark.campaign
@pytest.mark.timeout(1200)
def test_every_operation_answers_as_it_is_described_to_thousands_of_calls(schema: Any):
    made = {
        (operation.ok().label, mode.value): calls_of(operation.ok(), mode, CAMPAIGN)
        for operation in schema.get_all_operations()
        for mode in MODES
    }
    assert len({label for label, _ in made}) == len(ROUTES)
    print("calls:", sum(made.values()))
    assert sum(made.values()) >= 5000, made
