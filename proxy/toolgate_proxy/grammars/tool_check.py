"""The first check of a new tool, before a backend sees its schema. It needs no HTTP client."""

from __future__ import annotations

import json

from toolgate_core.errors import InvalidTools
from toolgate_core.schema.limits import check_limits
from toolgate_core.text_size import half_pair_in
from toolgate_core.tools import Tool


def check_tool(tool: Tool) -> None:
    """Check a new schema first. Raises SchemaTooComplex, and InvalidTools for text that is not
    Unicode (a lone surrogate), which can't be sent to a backend."""
    check_limits(tool.parameters, param=tool.param)
    try:
        json.dumps(tool.parameters, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidTools(
            f"{subject(tool)} contain {half_pair_in(tool.parameters)}. Remove or replace it.",
            param=tool.param,
        ) from error


def subject(tool: Tool) -> str:
    if tool.custom:
        return f"The grammar of {tool.name!r}"
    return f"The parameters of {tool.name!r}" if tool.name else "The keywords of response_format"
