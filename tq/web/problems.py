"""Every error that the API answers with, in one shape: a code for programs, a sentence and a hint for people."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from fastapi.exceptions import HTTPException as Refused
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tq import errors

log = logging.getLogger("tq")

# The first row that fits an error of tq's own counts: status, code, and what to do about it.
_ROWS: tuple[tuple[type[errors.TqError], int, str, str], ...] = (
    (errors.TaskNotFound, 404, "task_not_found", "GET /tasks lists those that there are."),
    (errors.WrongState, 409, "wrong_state", "GET the task again: it has changed, or this cannot be done with it."),
    (errors.PayloadError, 422, "payload_refused", "Mend the input; nothing was stored."),
    (errors.InvalidOption, 422, "invalid_option", "Mend what the message names; nothing was changed."),
    (errors.MissingExtra, 501, "missing_extra", "Install it where the API runs."),
    (errors.StorageBusy, 429, "storage_busy", "Try again in a moment."),
    (errors.StorageFull, 503, "storage_full", "Free some space, then try again."),
    (errors.StorageError, 503, "storage_error", "The queue's database is in trouble; try again when it is back."),
    (errors.NotInitialised, 503, "queue_stopped", "The program that serves this has closed its queue; restart it."),
)
_OF_STATUS = {
    400: ("malformed_request", "Send JSON, in UTF-8."),
    401: ("unauthenticated", "Send who you are, as the application that serves this expects it."),
    403: ("forbidden", "Ask those who run this for the right to do it."),
    404: ("no_such_route", "GET openapi.json lists what there is."),
    405: ("method_not_allowed", "GET openapi.json lists what there is."),
}
_MOST_FAULTS = 3


def refusal(status: int, code: str, message: str, hint: str, headers: Mapping[str, str] | None = None) -> HTTPException:
    """What a handler raises to answer with an error that is not tq's own."""
    return Refused(status, {"code": code, "message": message, "hint": hint}, dict(headers or {}))


def answer_to(error: Exception) -> Response:
    """The response that tells of an error. One that nobody has foreseen is told to the log, and to nobody else."""
    match error:
        case HTTPException(status_code=status, detail=detail, headers=headers):
            return _problem(status, _said(status, detail), headers)
        case RequestValidationError():
            return _invalid(error)
        case errors.TqError():
            return _of_tq(error)
    log.error("a request failed unexpectedly", exc_info=error)
    said = {
        "code": "internal_error",
        "message": "tq met an unexpected error",
        "hint": "The log of its server says more.",
    }
    return _problem(500, said)


def _of_tq(error: errors.TqError) -> Response:
    for kind, status, code, hint in _ROWS:
        if isinstance(error, kind):
            headers = {"Retry-After": "1"} if status == 429 else None
            return _problem(status, {"code": code, "message": str(error), "hint": hint}, headers)
    return _problem(500, {"code": "internal_error", "message": str(error), "hint": "The message says what to do."})


def _invalid(error: RequestValidationError) -> Response:
    faults = error.errors()
    if any(fault["type"] == "json_invalid" for fault in faults):
        code, hint = _OF_STATUS[400]
        return _problem(400, {"code": code, "message": "the body is not JSON", "hint": hint})
    told = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults[:_MOST_FAULTS])
    return _problem(
        422, {"code": "invalid_request", "message": told, "hint": "GET openapi.json says what each route takes."}
    )


def _said(status: int, detail: Any) -> dict[str, str]:
    if isinstance(detail, dict) and set(detail) == {"code", "message", "hint"}:
        return detail
    code, hint = _OF_STATUS.get(status, ("refused", "The message says what is wrong."))
    return {"code": code, "message": str(detail), "hint": hint}


def _problem(status: int, said: Mapping[str, str], headers: Mapping[str, str] | None = None) -> Response:
    text = json.dumps({"error": said})  # in ASCII: what was sent may hold anything
    return Response(text, status, dict(headers or {}), "application/json")
