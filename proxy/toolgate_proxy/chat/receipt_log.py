"""The receipt of one response: what was enforced, and the calls that were sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from toolgate_core import wire
from toolgate_core.deltas import ArgumentsDelta, CallEnd, CallStart, InputDelta
from toolgate_core.plan import EnforcementPlan
from toolgate_core.pointer import escape
from toolgate_core.schema.walk import subschemas
from toolgate_core.tools import Tool
from toolgate_core.version import VERSION

from ..receipts.keys import ReceiptKey
from ..receipts.receipt import FORMAT, Receipt, arguments_hash, signed

ANNOTATIONS = frozenset(
    {"$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "title", "description"}
    | {"default", "examples", "deprecated", "readOnly", "writeOnly"}
)
"""Keywords that constrain nothing."""


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
        self._residual = residual
        self._info = info
        self._calls: dict[tuple[int, int], dict[str, Any]] = {}
        """By choice and index of the call."""

    def note(self, choice: int, event: object, call_id: Callable[[CallStart], str]) -> None:
        match event:
            case CallStart(index, name):
                entry = {"id": call_id(event), "name": name, "text": "", "complete": False}
                self._calls[choice, index] = {"choice": choice, **entry}
            case ArgumentsDelta(index, text) | InputDelta(index, text):
                self._calls[choice, index]["text"] += text
            case CallEnd(index):
                self._calls[choice, index]["complete"] = True

    def receipt(self, response_id: str, created: int, model: str) -> Receipt:
        info = self._info
        content: Receipt = {
            "format": FORMAT,
            "response": response_id,
            "created": created,
            "model": model,
            "tool_choice": self._plan.choice,
            "tools": [self._entry(tool) for tool in self._plan.candidates],
            "calls": [_call(call) for call in self._calls.values()],
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
    """The keywords that masks enforced, and those that were checked on the complete call."""
    pointers = {each.pointer for each in residual}
    masked = {
        keyword
        for pointer, node in subschemas(schema)
        if isinstance(node, dict)
        for keyword in node
        if keyword not in ANNOTATIONS and f"{pointer}/{escape(keyword)}" not in pointers
    }
    return sorted(masked), sorted({each.keyword for each in residual})


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: value for name, value in call.items() if name != "text"}
    return {**shown, "arguments": arguments_hash(call["text"])}
