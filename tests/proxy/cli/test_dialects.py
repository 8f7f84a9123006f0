from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from toolgate_core.dialects.registry import DIALECTS
from toolgate_proxy.cli.main import app

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def listed() -> dict[str, Any]:
    result = RUNNER.invoke(app, ["dialects", "--json"])
    assert result.exit_code == 0, result.output
    return {each["name"]: each for each in json.loads(result.stdout)}


def test_table_has_all_dialects_and_the_meanings_of_their_shapes() -> None:
    result = RUNNER.invoke(app, ["dialects"])
    assert result.exit_code == 0, result.output
    first_words = {line.split()[0] for line in result.stdout.splitlines() if line.strip()}
    assert first_words >= set(DIALECTS)
    assert "object: a JSON object with the name and the arguments, between marks" in result.stdout


def test_json_lists_the_fields_of_a_dialect(listed: dict[str, Any]) -> None:
    qwen3 = listed["qwen3"]
    assert qwen3["models"] == ["Qwen3", "Qwen3-Next", "Qwen3-VL", "QwQ"]
    assert qwen3["shape"] == "object"
    assert qwen3["reasoning"] == "enable_thinking=true|false"
    assert qwen3["transcripts"] == len(DIALECTS["qwen3"].goldens)
    assert qwen3["marks"] == {
        "markup": ["</think>", "</tool_call>", "<think>", "<tool_call>", "<|im_end|>"],
        "close": ["</think>", "}\n</tool_call>", "</tool_call>", "<|im_end|>"],
        "hostile": [
            '<tool_call>\n{"name": "',
            "<tool_call>",
            '", "arguments":',
            "}\n</tool_call>",
            "</tool_call>",
        ],
    }


@pytest.mark.parametrize("name", DIALECTS)
def test_marks_can_be_used_by_an_evaluation(name: str, listed: dict[str, Any]) -> None:
    marks = listed[name]["marks"]
    assert marks["markup"]  # an empty pattern would match all content
    assert all(all(texts) and len(texts) == len(set(texts)) for texts in marks.values())
    contents = [golden.content for golden in DIALECTS[name].goldens if golden.content]
    assert not [mark for mark in marks["markup"] for content in contents if mark in content]
    if DIALECTS[name].calls:
        assert marks["hostile"]
        assert marks["close"]


@pytest.mark.parametrize("name", [name for name, each in DIALECTS.items() if each.calls])
def test_transcripts_with_calls_have_the_hostile_texts(name: str, listed: dict[str, Any]) -> None:
    """The marks are those that the family writes."""
    if name == "glm4_0414":
        pytest.skip("its calls have no marks")
    texts = "".join(golden.text for golden in DIALECTS[name].goldens if golden.calls)
    hostile = listed[name]["marks"]["hostile"]
    assert any(text in texts for text in hostile), hostile
