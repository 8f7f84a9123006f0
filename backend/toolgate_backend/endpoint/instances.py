"""Bounds on the instances that a request walks through masks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from toolgate_core.dialects.codecs import Json
from toolgate_core.dialects.dialect import Dialect
from toolgate_core.errors import InvalidRequest, UnsupportedParameter
from toolgate_core.schema.canonical import MAX_DEPTH
from toolgate_core.wire import MAX_INSTANCE_LENGTH, MAX_INSTANCES


def check_instances(instances: Sequence[Any], dialect: Dialect) -> None:
    """Raises InvalidRequest for too many or too large instances, and UnsupportedParameter if the
    model does not write arguments as JSON."""
    if dialect.calls is None or not isinstance(dialect.calls.codec, Json):
        raise UnsupportedParameter(
            f"Models of the dialect {dialect.name!r} do not write arguments as JSON, so instances "
            "have no text in it. Use a model that writes JSON arguments.",
            param="instances",
        )
    if len(instances) > MAX_INSTANCES:
        raise InvalidRequest(
            f"There are {len(instances)} instances. Send at most {MAX_INSTANCES} in one request.",
            param="instances",
        )
    for at, value in enumerate(instances):
        problem = _problem(value)
        if problem:
            raise InvalidRequest(f"instances[{at}] {problem}.", param=f"instances[{at}]")


def _problem(value: Any) -> str | None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            break
    else:
        return f"is nested deeper than {MAX_DEPTH} levels"
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:
        return "has half of a surrogate pair, which is not valid Unicode"
    except ValueError:
        return "has a number beyond the range of double precision"
    if len(text) > MAX_INSTANCE_LENGTH:
        return f"is longer than {MAX_INSTANCE_LENGTH:,} characters"
    return None


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
