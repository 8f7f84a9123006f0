"""bash, the text editor, memory and the computer of the Messages API."""

from __future__ import annotations

import re
from typing import Any

from toolgate_core.errors import InvalidTools

from ...api.messages.feature import MessagesFeature, check_entry
from ...request_fields import Fields
from .table import COMMON_FIELDS, TABLE, versions

TOOLSETS = ("computer_toolset_", "browser_toolset_")
"""Beginnings of the types of sets of tools that Anthropic defines and clients run."""
FAMILIES = sorted({kind.rpartition("_")[0] for kind in TABLE})


class ClientToolsInMessages(MessagesFeature):
    TYPES = re.compile(rf"(?:{'|'.join(FAMILIES)})_[^_]*|(?:{'|'.join(TOOLSETS)}).*", re.DOTALL)

    def function(self, entry: Fields, kind: str) -> dict[str, Any]:
        tool = TABLE.get(kind)
        if tool is None and (known := versions(kind)):
            advice = f"Use {' or '.join(known)}."
            raise entry.refusal("type", f"is {kind!r}, a version that is not supported. {advice}")
        if tool is None:
            raise entry.refusal(
                "type",
                f"is {kind!r}, a set of tools whose schemas only Anthropic's models know. Offer "
                "tools with a name, a description and an `input_schema` instead.",
            )
        check_entry(entry, COMMON_FIELDS + tool.fields)
        if entry.values.get("name") != tool.name:
            problem = f"must be {tool.name!r}: tools of the type {kind!r} have this name."
            raise entry.refusal("name", problem, InvalidTools)
        description, parameters = tool.define(entry)
        return {"name": tool.name, "description": description, "parameters": parameters}
