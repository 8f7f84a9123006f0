"""The receipt of one response: what was enforced, and the calls that were sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolgate_core import wire
from toolgate_core.deltas import ArgumentsDelta, CallEnd, CallStart, InputDelta
from toolgate_core.errors import UnsupportedParameter
from toolgate_core.plan import EnforcementPlan
from toolgate_core.pointer import escape
from toolgate_core.schema.walk import subschemas
from toolgate_core.tools import Tool
from toolgate_core.version import VERSION

from ..receipts.keys import ReceiptKey, read_key
from ..receipts.receipt import FORMAT, Receipt, SignedCall, signed, text_hash, value_hash
from ..settings import Settings
from .request.preparation import Prepared

ANNOTATIONS = frozenset(
    {"$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "title", "description"}
    | {"default", "examples", "deprecated", "readOnly", "writeOnly"}
)
"""Keywords that constrain nothing."""


@dataclass
class _Call:
    """A call that is being sent."""

    start: CallStart
    id: str
    texts: list[str] = field(default_factory=list)
    complete: bool = False

    def signed(self, choice: int) -> dict[str, Any]:
        text = "".join(self.texts)
        custom = self.start.custom
        entry = SignedCall(
            choice=choice,
            index=self.start.index,
            kind="custom" if custom else "function",
            id=self.id,
            name=self.start.name,
            complete=self.complete,
            text=text_hash(text),
            value=value_hash(text) if self.complete and not custom else None,
        )
        return entry.model_dump(exclude_none=True)


class Receipts:
    """Begins the receipts that requests ask for, with the key of the gateway."""

    def __init__(self, settings: Settings) -> None:
        key = settings.receipt_key
        self._key = None if key is None else read_key(key.get_secret_value())

    def check(self) -> None:
        """Raise UnsupportedParameter if the gateway can't sign one."""
        if self._key is None:
            raise UnsupportedParameter(
                "This gateway signs no receipts, because TOOLGATE_RECEIPT_KEY is not set. Remove "
                "`receipt`.",
                param="toolgate.receipt",
            )

    def begun(
        self, prepared: Prepared, residual: Mapping[str, Sequence[wire.ResidualKeyword]]
    ) -> ReceiptLog:
        """Return the receipt of a response. `residual`: by tool hash, the keywords that masks do
        not enforce."""
        assert self._key is not None  # it was checked
        return ReceiptLog(self._key, prepared.plan, residual, prepared.info)


class ReceiptLog:
    """Collects the calls of a response while they are sent."""

    def __init__(
        self,
        key: ReceiptKey,
        plan: EnforcementPlan,
        residual: Mapping[str, Sequence[wire.ResidualKeyword]],
        info: wire.Info,
    ) -> None:
        self._key = key
        self._plan = plan
        self._tools = {tool.name: tool for tool in plan.candidates}
        self._residual = dict(residual)
        self._info = info
        self._calls: dict[tuple[int, int], _Call] = {}
        """By choice and index of the call."""

    def extend(
        self, plan: EnforcementPlan, residual: Mapping[str, Sequence[wire.ResidualKeyword]]
    ) -> None:
        """Add the tools that can be called from here on, and their keywords."""
        self._tools |= {tool.name: tool for tool in plan.candidates}
        self._residual |= residual

    def note(self, choice: int, event: object, call_id: Callable[[CallStart], str]) -> None:
        match event:
            case CallStart(index):
                self._calls[choice, index] = _Call(event, call_id(event))
            case ArgumentsDelta(index, text) | InputDelta(index, text):
                self._calls[choice, index].texts.append(text)
            case CallEnd(index):
                self._calls[choice, index].complete = True

    def receipt(self, response_id: str, created: int, model: str) -> Receipt:
        info = self._info
        content: Receipt = {
            "format": FORMAT,
            "response": response_id,
            "created": created,
            "model": model,
            "tool_choice": self._plan.choice,
            "tools": [self._entry(tool) for tool in self._tools.values()],
            "calls": [
                self._calls[choice, index].signed(choice) for choice, index in sorted(self._calls)
            ],
            "versions": {
                "toolgate": VERSION,
                "vllm": info.vllm_version,
                "engine": info.grammar_format,
                "adapter": info.adapter,
                "dialect": info.dialect,
            },
        }
        if self._plan.content is not None:
            content["format_of_text"] = self._entry(self._plan.content)
        return signed(content, self._key)

    def _entry(self, tool: Tool) -> dict[str, Any]:
        residual = self._residual.get(tool.hash, ())
        if tool.custom:
            kinds: dict[str, Any] = {"custom": True}
        else:
            masked, checked = _keywords(tool.parameters, residual)
            kinds = {"masked": masked, "checked": checked}
        return {"name": tool.name, "schema": f"sha256:{tool.hash}", **kinds}


def _keywords(schema: Any, residual: Iterable[wire.ResidualKeyword]) -> tuple[list[str], list[str]]:
    """Return the keywords that masks enforced, and those that were checked on the complete call."""
    pointers = {each.pointer for each in residual}
    masked = {
        keyword
        for pointer, node in subschemas(schema)
        if isinstance(node, dict)
        for keyword in node
        if keyword not in ANNOTATIONS and f"{pointer}/{escape(keyword)}" not in pointers
    }
    return sorted(masked), sorted({each.keyword for each in residual})
