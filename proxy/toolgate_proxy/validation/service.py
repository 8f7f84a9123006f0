"""Validates the arguments of each complete call against its tool's schema, with limited cost.

Cheap validations run in this process, by validators that are compiled once; they take about a
microsecond. Potentially expensive ones (a recursive schema, a pattern with lookaround, arguments of
many kilobytes) run in a worker process that is killed if it exceeds its limits. Therefore no schema
and no response can block the gateway's event loop.

The bound of the cost comes from the schema alone. A validation visits a value once for each path
from the root of the schema to a subschema that applies to the value. References multiply the paths
(twenty definitions that each refer twice to the next one make a million), or make them infinite. A
pattern with lookaround can backtrack. A pattern with nested repetition counts is expensive to
compile.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from toolgate_core.custom_tools import INPUT, Grammar, custom_parameters, grammar_of
from toolgate_core.errors import ArgumentsNotChecked, SchemaNotEnforceable
from toolgate_core.killable import JobLimits, LimitExceeded, WorkerPool
from toolgate_core.schema.canonical import TEXT
from toolgate_core.schema.regular.parts import LINE_END, SPACE, other_than, written
from toolgate_core.schema.walk import at_pointer, pointer_of_ref
from toolgate_core.tools import OnInvalid, Tool, refuse

from .. import metrics
from .validator import InvalidSchema, Job, JobResult, Validator, Violation

UNBOUNDED = 10**12
"""Larger than any limit."""

_LOOKAROUND = re.compile(r"\(\?(?!:|[ims]+[:)])|\\[1-9k]")
"""Also matches back references. Flags such as `(?s)` are no lookaround."""
_COUNT = re.compile(r"\{(\d*),?(\d*)\}")
MAX_PATTERN = 1_000
"""Maximum length of a pattern multiplied by its repetition counts."""
_SHORT = tuple(map(written, (other_than(LINE_END), SPACE, other_than(SPACE))))
r"""What `.`, `\s` and `\S` are in canonical schemas. They count as one character each."""
MAX_COUNT = 20
"""Maximum length of a repetition count. Python does not read numbers of any length."""

_UNSUPPORTED_REFERENCES = frozenset({"$dynamicRef", "$recursiveRef", "$id", "id"})
"""References that are not followed here, and keywords that change the root of JSON Pointers when
they are in a subschema."""


def steps(schema: dict[str, Any]) -> int:
    """Return the number of paths from the root to its subschemas, weighted by size. UNBOUNDED for a
    cycle, a reference that is not a JSON Pointer, a chain of references that exceeds Python's
    stack, and a pattern with lookaround."""
    without_id = {name: value for name, value in schema.items() if name not in ("$id", "id")}
    try:
        return _Walk(schema).weight(without_id, "")
    except RecursionError:
        return UNBOUNDED


class _Walk:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._weights: dict[str, int | None] = {}
        """Weights by reference. None while one is computed: reading it then means a cycle."""

    def weight(self, value: Any, keyword: str) -> int:
        """Weigh a subschema recursively. The depth of a schema is limited
        (core/toolgate_core/schema/limits.py), and each reference is followed once, but long chains
        of references can exceed the stack."""
        if isinstance(value, list):
            return sum((self.weight(child, "") for child in value), 1)
        if isinstance(value, str):
            return self._text(value, keyword)
        if not isinstance(value, dict):
            return 1
        total = 1
        for name, child in value.items():
            if name == "patternProperties" and isinstance(child, dict):
                total += sum(_pattern(each) for each in child)
            if name in ("$defs", "definitions"):
                continue  # definitions are counted where they are referenced
            total += self.weight(child, name)
        return min(total, UNBOUNDED)

    def _text(self, value: str, keyword: str) -> int:
        if keyword in _UNSUPPORTED_REFERENCES:
            return UNBOUNDED
        if keyword == "pattern":
            return _pattern(value)
        return self._reference(value) if keyword == "$ref" else 1

    def _reference(self, reference: str) -> int:
        if reference not in self._weights:
            self._weights[reference] = None
            weight, pointer = UNBOUNDED, pointer_of_ref(reference)
            if pointer is not None:
                with suppress(LookupError, ValueError):
                    weight = self.weight(at_pointer(self._root, pointer), "")
            self._weights[reference] = weight
        known = self._weights[reference]
        return UNBOUNDED if known is None else known


def _pattern(pattern: str) -> int:
    if _LOOKAROUND.search(pattern):
        return UNBOUNDED
    for short in _SHORT:
        pattern = pattern.replace(short, ".")
    size = len(pattern)
    for count in _COUNT.finditer(pattern):
        if size > MAX_PATTERN or len(count.group()) > MAX_COUNT:
            return UNBOUNDED
        size *= max(int(count[1] or 0), int(count[2] or 0), 1)
    return size if size <= MAX_PATTERN else UNBOUNDED


MAX_VALIDATORS = 4096
"""Schemas that are kept compiled. The one used least recently is compiled again when it returns."""
WORKERS = 2
"""Maximum number of processes for expensive validations. One key uses all but one of them at most.
Few schemas need them, and a gateway process has one core."""
CPU_SECONDS = 1.0
"""Limit on the processor time of an expensive validation, which takes milliseconds as a rule."""
WALL_SECONDS = 10.0
"""The same in wall-clock time, which includes the wait for a worker."""
MAX_STEPS = 1_000_000
"""Maximum number of steps of one validation on the event loop. A step takes about 10 ns."""
MAX_COMPILED = 20_000
"""Maximum number of steps of a schema that is compiled on the event loop, in a few milliseconds."""
REASON_LENGTH = 200
TOO_EXPENSIVE = (
    "cannot be compiled within the limits of this gateway. Simplify the references and patterns of "
    "the schema."
)


@dataclass(frozen=True)
class _CachedSchema:
    validator: Validator | None
    """None if the schema is validated only in worker processes."""
    steps: int
    """Cost of a validation for each character of arguments."""


class ValidationService:
    """Caches validators by tool. The least recently used ones are removed first."""

    def __init__(
        self,
        *,
        capacity: int = MAX_VALIDATORS,
        workers: int = WORKERS,
        cpu_seconds: float = CPU_SECONDS,
        wall_seconds: float = WALL_SECONDS,
    ) -> None:
        self._capacity = capacity
        self._cache: OrderedDict[str, _CachedSchema] = OrderedDict()
        self._pool = WorkerPool(
            f"{Validator.__module__}:work",
            JobResult,
            JobLimits(cpu_seconds, wall_seconds),
            task="validate schemas and calls",
            workers=workers,
            wait_seconds=wall_seconds,
        )

    async def prepare(
        self, candidates: Sequence[Tool], owner: str = "", on_invalid: OnInvalid = refuse
    ) -> None:
        """Check the schemas of tools before their use. `owner` is the key of the request.
        `on_invalid` gets SchemaNotEnforceable for a schema that is invalid or cannot be compiled in
        time. Raise ChecksBusy and ChecksFailed."""
        for tool in candidates:
            if tool.hash not in self._cache:
                try:
                    await self._prepare(tool, owner)
                except SchemaNotEnforceable as error:
                    on_invalid(tool.name, error)

    async def _prepare(self, tool: Tool, owner: str) -> None:
        try:
            if self._add(tool).validator is None:
                result = await self._run(owner, tool, None)
                if result.schema_error is not None:
                    raise InvalidSchema(result.schema_error, result.schema_error_pointer)
            return
        except InvalidSchema as invalid:
            problem = f"are not a valid JSON Schema: {invalid.reason[:REASON_LENGTH]}"
            pointer = invalid.pointer
        except LimitExceeded:
            problem, pointer = TOO_EXPENSIVE, ""
        except BaseException:
            self._cache.pop(tool.hash, None)  # the schema was not checked
            raise
        self._cache.pop(tool.hash, None)
        raise SchemaNotEnforceable(f"{tool.subject} {problem}", pointer=pointer, param=tool.param)

    async def check(
        self, tool: Tool, arguments: str, *, unique: bool = False, owner: str = ""
    ) -> Violation | None:
        """Check the arguments of a call, or content by its format. `owner` is the key of the
        request. `unique`: see Validator.check. Raise ArgumentsNotChecked if the validation exceeds
        its limits, ChecksBusy and ChecksFailed."""
        if (form := tool.parameters.get(TEXT)) is not None:
            tool, arguments = _as_custom(tool, form), json.dumps({INPUT: arguments})
        violation = await self._check_schema(tool, arguments, owner, unique=unique)
        return violation or await self._check_grammar(tool, arguments, owner)

    async def _check_grammar(self, tool: Tool, arguments: str, owner: str) -> Violation | None:
        """Read the input of a custom tool once more by its grammar, which the masks enforced. A
        grammar that cannot be read here, or not within the limits, is left to the masks."""
        grammar = grammar_of(tool.parameters) if tool.custom else None
        if grammar is None:
            return None
        try:
            result = await self._run(owner, tool, arguments, grammar=grammar)
        except LimitExceeded:
            metrics.CUSTOM_CALLS.labels("too_long").inc()
            return None
        outcome = "invalid" if result.violation else "valid" if result.is_read else "not_read"
        metrics.CUSTOM_CALLS.labels(outcome).inc()
        return result.violation

    async def _check_schema(
        self, tool: Tool, arguments: str, owner: str, *, unique: bool
    ) -> Violation | None:
        cached = self._cache.get(tool.hash) or self._add(tool)
        self._cache.move_to_end(tool.hash)
        if cached.validator is not None and cached.steps * len(arguments) <= MAX_STEPS:
            return cached.validator.check(arguments, unique=unique)
        try:
            return (await self._run(owner, tool, arguments, unique=unique)).violation
        except LimitExceeded as error:
            raise ArgumentsNotChecked(
                f"{f'The arguments of {tool.name!r}' if tool.name else 'The content'} could not be "
                "validated within the limits of this gateway. Simplify the references and patterns "
                "of its schema."
            ) from error

    def _add(self, tool: Tool) -> _CachedSchema:
        """Add a validator. Raise InvalidSchema."""
        cost = steps(tool.parameters)
        validator = Validator(tool.parameters) if cost <= MAX_COMPILED else None
        cached = self._cache[tool.hash] = _CachedSchema(validator, min(cost, UNBOUNDED))
        if len(self._cache) > self._capacity:
            self._cache.popitem(last=False)
        return cached

    async def _run(self, owner: str, tool: Tool, arguments: str | None, **more: Any) -> JobResult:
        job = Job(tool_schema=tool.parameters, arguments=arguments, **more)
        return await self._pool.run(job, owner)


def _as_custom(content: Tool, form: Mapping[str, Any]) -> Tool:
    """Return a custom tool whose input has the format of content that is not JSON."""
    parameters: dict[str, Any] = {"properties": {INPUT: {"enum": form.get("choice")}}}
    if "regex" in form:
        parameters = custom_parameters(Grammar("regex", form["regex"]))
    return replace(content, custom=True, parameters=parameters)
