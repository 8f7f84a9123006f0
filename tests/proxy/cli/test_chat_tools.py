"""The tools of the chat: arithmetic and the time, and errors for all else."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from toolgate_core.tools import parse_tools
from toolgate_proxy.cli.chat_tools import TOOLS, result
from toolgate_proxy.cli.tools.commands import reports_without_gateway
from toolgate_proxy.settings import Settings


def calculate(expression: str) -> object:
    found = json.loads(result("calculate", json.dumps({"expression": expression})))
    return found.get("result", found.get("error"))


@pytest.mark.parametrize(
    ("expression", "value"),
    [("17 * 23", 391), ("(2 + 3) * -4 / 8", -2.5), (" 7 // 2 + 7 % 4", 6), ("1e3", 1000)],
)
def test_arithmetic_has_a_value(expression: str, value: float) -> None:
    assert calculate(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').getcwd()",
        "x",
        "'a' * 9",
        "9 ** 9",
        "1 if 1 else 2",
        "[1]",
        "1j",
        "1 /",
        "1 / 0",
        "9" * 201,
        "1" + "0" * 16,
        "(" * 100 + "1",
        "-" * 199 + "1e400",
        "",
    ],
)
def test_other_expressions_are_errors_for_the_model(expression: str) -> None:
    assert isinstance(calculate(expression), str)


def test_the_time_is_that_of_the_zone() -> None:
    found = json.loads(result("get_current_time", '{"timezone": "Asia/Kathmandu"}'))
    offset = datetime.fromisoformat(found["result"]).utcoffset()
    assert offset is not None
    assert offset.total_seconds() == (5 * 60 + 45) * 60
    for name in ("Berlin", "../../etc/passwd", "/etc/passwd", ""):
        assert "error" in json.loads(result("get_current_time", json.dumps({"timezone": name})))


def test_masks_enforce_the_tools_completely() -> None:
    definitions = [tool.definition for tool in TOOLS.values()]
    assert len(parse_tools(definitions)) == 2
    reports, _ = reports_without_gateway(definitions, Settings(), None)
    assert [each.status for each in reports] == ["masked"] * 2
