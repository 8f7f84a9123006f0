"""Worker process for validations with unknown cost."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from toolgate_core.custom_tools import INPUT, Grammar
from toolgate_core.killable import Work
from toolgate_core.schema.canonical import GRAMMAR
from toolgate_proxy.validation.grammar_reader import read_grammar
from toolgate_proxy.validation.validator import InvalidSchema, Validator, Violation


class Job(BaseModel):
    tool_schema: dict[str, Any]
    grammar: Grammar | None = None
    """Read the arguments' input by this grammar instead of validating the arguments."""
    arguments: str | None
    """None: check only that the schema is valid."""
    unique: bool = False


class JobResult(BaseModel):
    is_read: bool = True
    """Whether the grammar could be read."""
    violation: Violation | None = None
    schema_error: str | None = None
    schema_error_pointer: str = ""


def run(job: Job) -> JobResult:
    if job.grammar is not None and job.arguments is not None:
        return _read(job.grammar, json.loads(job.arguments)[INPUT])
    try:
        validator = Validator(job.tool_schema)
    except InvalidSchema as error:
        return JobResult(schema_error=error.reason, schema_error_pointer=error.pointer)
    if job.arguments is None:
        return JobResult()
    return JobResult(violation=validator.check(job.arguments, unique=job.unique))


def _read(grammar: Grammar, text: str) -> JobResult:
    matches = read_grammar(grammar)
    if matches is None:
        return JobResult(is_read=False)
    violation = Violation(pointer=f"/{INPUT}", keyword=GRAMMAR, schema_pointer="")
    return JobResult(violation=None if matches(text) else violation)


def work(_: bytes) -> Work:
    return Work(Job, lambda job: [run(job)])
