"""A schema and instances of it, before grammar and check: who lets what through."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import jsonschema
import jsonschema_rs

from tests.support.schemas.causes import Form, Kind, Text, cause_of, closed_out, written
from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.errors import SchemaNotEnforceable
from toolgate_core.schema.canonical import canonical_json, canonical_schema
from toolgate_core.schema.closed_objects import with_open_objects
from toolgate_core.schema.preparation.prepare import Occurrence, PreparedSchema

Outcome = Literal["masked", "residual", "refused"]

COMPACT = Form(separators=(",", ":"))
"""Without white space."""
CANONICAL = Form(plain_numbers=True, schema_order=True)
"""One line, with the schema's order of members. Grammars with fixed white space write this form."""


@dataclass
class Judged:
    outcome: Outcome
    engine: str = ""
    reason: str = ""
    schema: Any = None
    """In its canonical form; None of a refused one."""
    made: PreparedSchema | None = None
    instances: list[Instance] = field(default_factory=list)


@dataclass
class Instance:
    valid: bool | None
    """As the suite says; None where it does not."""
    taken: bool
    """By the grammar."""
    passed: bool
    """By the check."""
    by_decision: bool = False
    """Not taken because objects that name their properties are closed (decision 5)."""
    text: str = ""
    cause: Kind | None = None
    """Why masks refuse the instance as it is given, in its own order of members; None if they allow
    it, or if it is not valid."""
    compact: bool = False
    """Whether they allow it without white space."""


class Judge:
    def __init__(self, compiler: Compiler, vocabulary: Vocabulary) -> None:
        self._compiler = compiler
        self._vocabulary = vocabulary

    def judge(
        self, schema: Any, instances: list[tuple[bool | None, Any]], *, open_objects: bool = False
    ) -> Judged:
        if isinstance(schema, bool):
            schema = {} if schema else {"not": {}}
        try:
            canonical = canonical_schema(schema, param="schema")
            canonical = with_open_objects(canonical) if open_objects else canonical
        except SchemaNotEnforceable as error:
            return Judged("refused", reason=error.message)
        outcome = self._compiler.compile("key", "t", canonical_json(canonical))
        verdict = outcome.verdict
        if outcome.grammar is None:
            return Judged("refused", reason=verdict.reason or "")
        check = jsonschema_rs.validator_for(canonical, validate_formats=True)
        made = json.loads(verdict.rewritten) if verdict.rewritten else canonical
        judged = Judged(
            "residual" if verdict.residual else "masked",
            verdict.engine or "",
            verdict.reason or "",
            canonical,
            PreparedSchema(made, tuple(Occurrence(k.pointer, k.keyword) for k in verdict.residual)),
        )
        for valid, value in instances:
            text = written(value, CANONICAL, made).data.decode("utf-8", "surrogatepass")
            taken = self._takes(outcome.grammar, text)
            passed = check.is_valid(value)
            instance = Instance(valid, taken, passed, not taken and closed_out(made, value), text)
            if passed:
                cause = cause_of(value, Form(), made, partial(self._refused_at, outcome.grammar))
                instance.cause = cause.kind if cause else None
                written_compact = written(value, COMPACT, made)
                instance.compact = self._refused_at(outcome.grammar, written_compact) is None
            judged.instances.append(instance)
        return judged

    def _refused_at(self, grammar: Any, text: Text) -> int | None:
        """Some byte of a refused text."""
        try:
            return None if self._takes(grammar, text.data.decode()) else 0
        except UnicodeDecodeError:  # a lone surrogate, which no token spells
            return 0

    def _takes(self, grammar: Any, text: str) -> bool:
        matcher = grammar.matcher()
        before, after = self._vocabulary.form.grammar_texts("t")
        ids = self._vocabulary.encode(before + text + after)
        return all(matcher.accept(token) for token in ids) and matcher.finished


FORMATS = jsonschema.FormatChecker(("date", "date-time", "email", "ipv4", "uuid"))
"""The formats that are checked. Here `format` is an assertion (docs/reference/schema-support.md). A
`oneOf` with a format can have another result where it asserts nothing."""
EXACT = 2**53
"""From here on, a float does not tell whether the number that was written is a multiple."""


def schema_violation(schema: Mapping[str, Any], value: object) -> str | None:
    """The first rule of the schema that the value breaks."""
    found = jsonschema.Draft202012Validator(schema, format_checker=FORMATS).iter_errors(value)
    known = (each for each in found if not _is_inexact(each))
    try:
        return next((f"{each.json_path}: {each.message}"[:200] for each in known), None)
    except OverflowError:  # jsonschema can't divide numbers beyond those of floats by `multipleOf`
        return None


def _is_inexact(error: jsonschema.ValidationError) -> bool:
    if error.validator == "multipleOf":
        number: Any = error.instance
        return bool(abs(number) >= EXACT)
    return any(map(_is_inexact, error.context or ()))
