"""A schema and instances of it, before grammar and check: who lets what through, and why masks
refuse an instance.

A model writes a value in its own order of members, with its own white space and its own notation of
numbers. The forms here are those that a grammar may or may not allow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any, Literal

import jsonschema
import jsonschema_rs

from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.errors import SchemaNotEnforceable
from toolgate_core.pointer import escape
from toolgate_core.schema.canonical import canonical_json, canonical_schema
from toolgate_core.schema.closed_objects import close_objects, with_open_objects
from toolgate_core.schema.patterns import matches
from toolgate_core.schema.preparation.prepare import Occurrence, PreparedSchema
from toolgate_core.schema.walk import at_pointer, pointer_of_ref


@dataclass(frozen=True)
class Form:
    """How a value is written."""

    separators: tuple[str, str] = (", ", ": ")
    plain_numbers: bool = False
    """Numbers without exponents and without `.0`."""
    schema_order: bool = False


@dataclass
class Text:
    """A text and its parts: (begin, end, JSON Pointer) of each value and member name, in bytes. A
    separator is part of what follows it."""

    data: bytes = b""
    spans: list[tuple[int, int, str]] = field(default_factory=list)

    def pointer_at(self, offset: int) -> str:
        """Return the JSON Pointer of the innermost part at a byte."""
        inside = [span for span in self.spans if span[0] <= offset < span[1]]
        return min(inside, key=lambda span: span[1] - span[0])[2] if inside else ""


def written(value: Any, form: Form, schema: Any) -> Text:
    """`schema`: the schema whose order of members `schema_order` means."""
    if form.schema_order:
        value = ordered(value, [schema], schema)
    text = Text()
    parts = bytearray()
    for part in _parts(value, form, "", text, parts):
        parts += part.encode("utf-8", "surrogatepass")
    return replace(text, data=bytes(parts))


def _parts(value: Any, form: Form, pointer: str, text: Text, parts: bytearray) -> Iterator[str]:
    begin = len(parts)
    if isinstance(value, dict):
        yield "{"
        for at, (name, member) in enumerate(value.items()):
            inside = f"{pointer}/{escape(name)}"
            named = len(parts)
            if at:
                yield form.separators[0]
            yield json.dumps(name, ensure_ascii=False)
            text.spans.append((named, len(parts), inside))
            yield form.separators[1]
            yield from _parts(member, form, inside, text, parts)
        yield "}"
    elif isinstance(value, list):
        yield "["
        for at, item in enumerate(value):
            if at:
                text.spans.append(
                    (len(parts), len(parts) + len(form.separators[0]), f"{pointer}/{at}")
                )
                yield form.separators[0]
            yield from _parts(item, form, f"{pointer}/{at}", text, parts)
        yield "]"
    else:
        yield _scalar(value, form)
    text.spans.append((begin, len(parts), pointer))


def _scalar(value: Any, form: Form) -> str:
    if isinstance(value, float) and form.plain_numbers:
        return format(Decimal(repr(value)).normalize(), "f")
    return json.dumps(value, ensure_ascii=False)


def nodes_at(value: Any, schema: Any, steps: list[str]) -> list[dict[str, Any]]:
    """Return the subschemas without combinations that bear on the part of a value at `steps`, the
    parts of a JSON Pointer."""
    schemas = [schema]
    for step in steps:
        nodes = [node for each in schemas for node in _applying(value, each, schema)]
        if isinstance(value, list):
            value, schemas = value[int(step)], _of_item(int(step), nodes)
        else:
            value, schemas = value[step], _of_member(step, nodes)
    return [node for each in schemas for node in _applying(value, each, schema)]


def ordered(value: Any, schemas: list[Any], root: Any) -> Any:
    """Return a value with its members in the order of the schemas that the engine was given."""
    nodes = [node for schema in schemas for node in _applying(value, schema, root)]
    if isinstance(value, dict):
        for node in nodes:
            for listed in node.get("enum", [node.get("const")]):
                if isinstance(listed, dict) and jsonschema_rs.is_valid({"const": listed}, value):
                    return listed
        names = [name for node in nodes for name in node.get("properties", ())]
        names += [name for node in nodes for name in node.get("required", ())]
        names = [name for name in dict.fromkeys([*names, *value]) if name in value]
        return {n: ordered(value[n], _of_member(n, nodes), root) for n in names}
    if isinstance(value, list):
        return [ordered(v, _of_item(at, nodes), root) for at, v in enumerate(value)]
    return value


def _applying(value: Any, schema: Any, root: Any) -> Iterator[dict[str, Any]]:
    """Yield the subschemas without combinations that bear on a value."""
    pending, seen = [schema], set()
    while pending:
        node = pending.pop(0)
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        target = pointer_of_ref(node.get("$ref"))
        if target is not None:
            pending.append(at_pointer(root, target))
        pending.extend(node.get("allOf", ()))
        pending.extend(b for b in node.get("anyOf", ()) if _valid(value, b, root))


def _valid(value: Any, branch: Any, root: Any) -> bool:
    whole = {"$defs": root.get("$defs", {}), "allOf": [branch]}
    try:
        return bool(jsonschema_rs.is_valid(whole, value, validate_formats=True))
    except (ValueError, jsonschema_rs.ValidationError):
        return True


def _of_member(name: str, nodes: list[dict[str, Any]]) -> list[Any]:
    found = []
    for node in nodes:
        own = [s for n, s in node.get("properties", {}).items() if n == name]
        own += [s for p, s in node.get("patternProperties", {}).items() if matches(p, name)]
        found += own or [node.get("additionalProperties", True)]
    return found


def _of_item(at: int, nodes: list[dict[str, Any]]) -> list[Any]:
    prefixes = [node.get("prefixItems", []) for node in nodes]
    return [
        prefix[at] if at < len(prefix) else node.get("items", True)
        for node, prefix in zip(nodes, prefixes, strict=True)
    ]


Kind = Literal["white_space", "member_order", "number_form", "closed_object", "keyword"]

KEYWORDS = (
    *("format", "pattern", "const", "enum", "multipleOf"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("not", "oneOf", "anyOf", "allOf", "if", "dependentSchemas", "dependentRequired"),
    *("patternProperties", "propertyNames", "unevaluatedProperties", "additionalProperties"),
    *("prefixItems", "items", "contains", "uniqueItems", "required", "properties", "$ref", "type"),
)
"""The first of these at the place of a refusal is named as its cause."""


@dataclass(frozen=True)
class Cause:
    kind: Kind
    keyword: str
    pointer: str
    """JSON Pointer in the instance, where the first token is refused."""


def cause_of(
    value: Any,
    form: Form,
    schema: dict[str, Any],
    refused_at: Callable[[Text], int | None],
    separators: tuple[str, str] = (", ", ": "),
) -> Cause | None:
    """Return why a text of a valid value is refused. `refused_at` gives the byte of the first
    refused token, None for a text that is allowed. `schema` is the one that the engine was given,
    `separators` are those of the dialect. None: the text is allowed."""
    text = written(value, form, schema)
    offset = refused_at(text)
    if offset is None:
        return None
    pointer = text.pointer_at(offset)
    steps: tuple[tuple[Kind, str, Form], ...] = (
        ("white_space", "", form := replace(form, separators=separators)),
        ("member_order", "properties", form := replace(form, schema_order=True)),
        ("number_form", "type", form := replace(form, plain_numbers=True)),
    )
    for kind, keyword, form in steps:
        if refused_at(written(value, form, schema)) is None:
            return Cause(kind, keyword, pointer)
    offset = refused_at(written(value, form, schema))
    assert offset is not None
    pointer = written(value, form, schema).pointer_at(offset)
    if closed_out(schema, value):
        return Cause("closed_object", "additionalProperties", pointer)
    return Cause("keyword", _keyword(value, schema, pointer), pointer)


def closed_out(schema: dict[str, Any], value: Any) -> bool:
    """Return whether a value is invalid only because objects that declare properties are closed."""
    try:
        return jsonschema_rs.is_valid(schema, value) and not jsonschema_rs.is_valid(
            close_objects(schema), value
        )
    except (ValueError, jsonschema_rs.ValidationError):
        return False


def _keyword(value: Any, schema: dict[str, Any], pointer: str) -> str:
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    while True:
        try:
            present = {keyword for node in nodes_at(value, schema, steps) for keyword in node}
        except (KeyError, IndexError, TypeError, ValueError):
            present = set()
        named = next((keyword for keyword in KEYWORDS if keyword in present), None)
        if named or not steps:
            return named or ""
        steps.pop()


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
    except re.error:  # Python's `re` has no `\p{…}`
        return None if jsonschema_rs.is_valid(dict(schema), value) else "a pattern"


def _is_inexact(error: jsonschema.ValidationError) -> bool:
    if error.validator == "multipleOf":
        number: Any = error.instance
        return bool(abs(number) >= EXACT)
    return any(map(_is_inexact, error.context or ()))
