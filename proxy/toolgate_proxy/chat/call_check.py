"""The last look: no finished call leaves before its arguments were checked in full.

A call whose masks hold its whole schema can't fail; if one does, that is a bug of ours, and the
answer ends in an error rather than in a lie. A call of a tool with residual keywords may well fail.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from toolgate_core.errors import EnforcementFailed, ToolSchemaViolation
from toolgate_core.plan import Tool

from .. import metrics
from ..validation import Violation, half_a_pair
from ..validators import Validators

logger = logging.getLogger("toolgate")


class LastLook:
    """At the calls of one request. `residual`: names of the tools whose masks leave something open,
    and whose calls are therefore held back until they are known to be valid."""

    def __init__(
        self, tools: Iterable[Tool], residual: Iterable[str], validators: Validators
    ) -> None:
        self.residual = frozenset(residual)
        self._tools = {tool.name: tool for tool in tools}
        self._validators = validators

    async def check(self, name: str, arguments: str) -> Violation | None:
        """What is wrong with a residual call, if anything. Raises EnforcementFailed where a call is
        wrong that can't be, ToolSchemaViolation where it holds half of a surrogate pair,
        ArgumentsNotChecked where the check went over its limits."""
        tool, held_back = self._tools[name], name in self.residual
        # Masks can't rule out that a member of an open object comes twice. Where a call can still
        # be sampled again, that is wrong; elsewhere the last one counts.
        violation = await self._validators.check(tool, arguments, unique=held_back)
        if held_back:
            metrics.RESIDUAL_CALLS.labels("invalid" if violation else "valid").inc()
            return violation
        if violation is not None and half_a_pair(arguments):
            raise ToolSchemaViolation(
                f"The model called {name!r} with half of a surrogate pair in the arguments: no "
                "mask rules it out, and strict JSON parsers refuse it. Send the request again."
            )
        if violation is not None:
            metrics.VIOLATIONS.inc()
            logger.error(
                "Toolgate: masks let a violation through: schema %s, keyword %r at %r",
                tool.hash,
                violation.keyword,
                violation.schema_pointer,
            )
            raise EnforcementFailed(
                "A tool call broke its schema although it was enforced: this is a bug of Toolgate. "
                "Send the request again, and report the tool's schema."
            )
        return None
