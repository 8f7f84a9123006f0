"""Every finished call's arguments, held to their tool's schema within bounds on what that costs.

What is known to be cheap is checked here, by validators that are compiled once: a microsecond.
What may not be cheap (a schema that refers to itself, a pattern that looks around, arguments of
many kilobytes) is checked by a process that is killed when it goes over its limits, so that no
schema and no answer can hold the gateway's event loop up.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolgate_core.error_body import RETRY_SECONDS
from toolgate_core.errors import ArgumentsNotChecked, ChecksBusy, SchemaNotEnforceable
from toolgate_core.tools import Tool

from ..settings import Settings
from .cost import UNBOUNDED, steps
from .pool import NoneFree, OverLimits, ValidationPool
from .validator import BadSchema, Validator, Violation
from .worker import Answer, Job

MAX_STEPS = 1_000_000
"""Steps of one check that are taken on the event loop; a step is some ten nanoseconds."""
MAX_COMPILED = 20_000
"""Steps of a schema that is compiled on the event loop: a few milliseconds at the most."""
REASON_LENGTH = 200


@dataclass(frozen=True)
class _Known:
    """A schema that was seen: its validator where it may be used here, and what a check costs for
    each character of arguments."""

    validator: Validator | None
    steps: int


class ValidationService:
    """By tool, the least recently used go first."""

    def __init__(self, settings: Settings) -> None:
        self._capacity = settings.validators
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._pool = ValidationPool(
            workers=settings.validation_workers,
            cpu_seconds=settings.validation_cpu_seconds,
            wall_seconds=settings.validation_wall_seconds,
        )

    async def prepare(self, candidates: Sequence[Tool], param_of: Mapping[str, str]) -> None:
        """Before tools are used. `param_of` says where in the request a tool's schema stands, by
        its name, for errors. Raises SchemaNotEnforceable for what is no schema, or none that can be
        compiled in time, and ChecksBusy."""
        for tool in candidates:
            if tool.hash not in self._known:
                await self._prepare(tool, param_of[tool.name])

    async def _prepare(self, tool: Tool, param: str) -> None:
        try:
            known = self._learn(tool)
            if known.validator is None:
                told = await self._ask(tool, None)
                if told.bad_schema is not None:
                    raise BadSchema(told.bad_schema, told.bad_pointer)
        except BadSchema as bad:
            reason, pointer = bad.reason[:REASON_LENGTH], bad.pointer
        except OverLimits:
            reason, pointer = "it can't be compiled within its limits", ""
        except BaseException:
            self._known.pop(tool.hash, None)  # whether it is a schema is not known yet
            raise
        else:
            return
        self._known.pop(tool.hash, None)
        raise SchemaNotEnforceable(
            f"The parameters of {tool.name!r} are not a valid JSON Schema: {reason}",
            pointer=pointer,
            param=param,
        )

    async def check(self, tool: Tool, arguments: str, *, unique: bool = False) -> Violation | None:
        """`unique`: see Validator. Raises ArgumentsNotChecked for a check over its limits, and
        ChecksBusy."""
        known = self._known.get(tool.hash) or self._learn(tool)
        self._known.move_to_end(tool.hash)
        if known.validator is not None and known.steps * len(arguments) <= MAX_STEPS:
            return known.validator.check(arguments, unique=unique)
        try:
            return (await self._ask(tool, arguments, unique=unique)).violation
        except OverLimits as error:
            raise ArgumentsNotChecked(
                f"The arguments of {tool.name!r} could not be checked against its schema within "
                "the limits of this gateway; simplify its references and patterns."
            ) from error

    def _learn(self, tool: Tool) -> _Known:
        """Raises BadSchema."""
        cost = steps(tool.parameters)
        validator = Validator(tool.parameters) if cost <= MAX_COMPILED else None
        known = self._known[tool.hash] = _Known(validator, min(cost, UNBOUNDED))
        if len(self._known) > self._capacity:
            self._known.popitem(last=False)
        return known

    async def _ask(self, tool: Tool, arguments: str | None, *, unique: bool = False) -> Answer:
        job = Job(
            tool_schema=tool.parameters,
            arguments=arguments,
            unique=unique,
            cpu_seconds=self._pool.cpu_seconds,
        )
        try:
            return await self._pool.ask(job)
        except NoneFree as error:
            raise ChecksBusy(
                "The gateway is busy checking other requests' schemas; send the request again.",
                retry_after=RETRY_SECONDS,
            ) from error
