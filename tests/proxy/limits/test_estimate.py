"""Estimates of the tokens of a request, by its text."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.shared_data import DATA as DATA_SETS
from toolgate_proxy.keys.key import Limits
from toolgate_proxy.limits.estimate import (
    MAX_TOKENS,
    OUTPUT_FIELDS,
    PARTS,
    TEXTS,
    TOKENS_PER_FILE,
    estimate,
    files_beyond_estimate,
    text_tokens,
)

MESSAGES = [{"role": "user", "content": "x" * 396}]
"""400 small letters, with the role."""


def total(body: dict[str, Any], **limits: int) -> int:
    return estimate(body, Limits(**limits), 1024, output=True).total


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ({"messages": MESSAGES, "max_tokens": 50}, 192),
        ({"messages": MESSAGES, "max_completion_tokens": 50, "n": 3}, 292),
        ({"input": "x" * 400, "max_output_tokens": 10}, 152),
        ({"messages": MESSAGES}, 142 + 1024),
        ({"prompt": "é" * 200, "max_tokens": 0}, 208),
        ({"prompt": [1234] * 200, "max_tokens": 0}, 208),
        ({"messages": MESSAGES, "max_tokens": "many", "n": True}, 142 + 1024),
        ({"messages": MESSAGES, "max_tokens": 50.0, "n": 3.0}, 292),
        ({"messages": [{"role": "user", "content": "data:" + "x" * 9000}], "max_tokens": 1}, 3013),
        (
            {
                "input": [
                    *MESSAGES,
                    {"type": "compaction", "encrypted_content": "x" * 300},
                    *MESSAGES,
                ],
                "max_output_tokens": 1,
            },
            254,
        ),
        ({"functions": ["x" * 300], "max_tokens": 1}, 109),
        ({"documents": ["x" * 300], "max_tokens": 1}, 109),
        ({}, 8 + 1024),
        ({"max_tokens": 10**30}, MAX_TOKENS),
    ],
)
def test_tokens_are_estimated_from_prompt_and_output_fields(
    body: dict[str, Any], tokens: int
) -> None:
    assert total(body) == tokens


@pytest.mark.parametrize(
    "wrapped", [lambda tool: tool, lambda tool: {"type": "namespace", "tools": [tool]}]
)
def test_deferred_tools_are_no_tokens_of_the_prompt(wrapped: Any) -> None:
    tool = {"name": "look", "input_schema": {"properties": {"defer_loading": {"type": "string"}}}}
    body = {"messages": MESSAGES, "max_tokens": 1}
    later = {**tool, "description": "x" * 9000, "defer_loading": True}
    without = total({**body, "tools": [wrapped(tool)]})
    assert without > total(body)
    assert total({**body, "tools": [wrapped(tool), later]}) == without


def test_small_limits_reserve_less_output() -> None:
    assert total({"input": "x" * 30}, tpm=100) == 43
    assert estimate({"input": "x" * 30}, Limits(), 1024, output=False).total == 18


DATA = "data:image/png;base64," + "A" * 1_000_000
"""Bytes that are 0, as no text has."""
SOURCE = {"type": "base64", "media_type": "image/png", "data": "A" * 1_000_000}
FILES: list[dict[str, Any]] = [
    {"type": "image_url", "image_url": {"url": DATA}},
    {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}},
    {"type": "input_image", "image_url": DATA},
    {"type": "image", "source": SOURCE},
    {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}},
    {"type": "document", "source": SOURCE},
    {"type": "file", "file": {"file_data": DATA}},
    {"type": "input_file", "file_data": DATA},
]


@pytest.mark.parametrize("part", FILES)
def test_images_and_files_count_the_same_however_they_are_sent(part: dict[str, Any]) -> None:
    result = {"type": "tool_result", "content": [part]}
    for content in ([part], [result]):
        body = {"messages": [{"role": "user", "content": content}], "max_tokens": 1}
        assert TOKENS_PER_FILE < total(body) < TOKENS_PER_FILE + 100


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def files_of(content: bytes) -> list[dict[str, Any]]:
    """The content parts that can have it."""
    data = encoded(content)
    source = {"type": "base64", "media_type": "text/plain", "data": data}
    url = f"data:text/plain;base64,{data}"
    return [
        {"type": "document", "source": source},
        {"type": "file", "file": {"file_data": url, "filename": "a.txt"}},
        {"type": "input_file", "file_data": url, "filename": "a.txt"},
        {"type": "input_file", "file_data": data},
    ]


def of_part(part: dict[str, Any]) -> int:
    return total({"messages": [{"role": "user", "content": [part]}], "max_tokens": 1})


@pytest.mark.parametrize("size", [30, 3_000_000])
def test_a_file_of_text_counts_as_its_text(size: int) -> None:
    text = ("ab é 1 " * size)[:size]
    tokens = text_tokens([text])
    for part in files_of(text.encode()):
        assert tokens < of_part(part) < tokens + 60


@pytest.mark.parametrize("content", [b"%PDF-1.7\n" + b"x" * 9000, b"\x89PNG\0" + b"x" * 9000])
def test_a_file_without_known_text_counts_the_same_however_long_it_is(content: bytes) -> None:
    for part in files_of(content):
        assert TOKENS_PER_FILE < of_part(part) < TOKENS_PER_FILE + 60
    not_base64 = {"type": "input_file", "file_data": "é" * 9000}
    assert TOKENS_PER_FILE < of_part(not_base64) < TOKENS_PER_FILE + 60


def test_the_text_of_a_pdf_counts_beyond_what_was_estimated() -> None:
    assert files_beyond_estimate(["x" * 300]) == 0
    assert files_beyond_estimate(["x" * 30_000, "x" * 300]) == 10_100 - 2 * TOKENS_PER_FILE


LONG = {"type": "image_url", "image_url": {"url": "data:" + "x" * 9000}}


@pytest.mark.parametrize(
    "body",
    [
        {"tools": [{"function": {"name": "f", "parameters": {"examples": [LONG]}}}]},
        {"tools": [{"name": "f", "input_schema": {"default": {"type": "image", "source": LONG}}}]},
        {"response_format": {"json_schema": {"schema": {"const": LONG}}}},
        {"messages": [{"content": [{"type": "tool_use", "name": "f", "input": LONG}]}]},
        {"messages": [{"tool_calls": [{"function": {"arguments": json.dumps(LONG)}}]}]},
        {
            "messages": [
                {
                    "content": [
                        {"type": "document", "source": {"type": "text", "data": "x" * 9000}},
                    ]
                }
            ]
        },
        {"documents": [LONG]},
    ],
)
def test_data_that_is_text_of_the_prompt_counts_in_full(body: dict[str, Any]) -> None:
    assert 3000 <= total({**body, "max_tokens": 1}) < 3200


PROSE = {
    "English": "Distributed systems usually avoid failures by replicating data to several nodes. ",
    "French": "Les systèmes répartis évitent généralement les défaillances grâce aux copies. ",
    "Russian": "Распределённые системы обычно избегают отказов благодаря репликации данных. ",
    "Chinese": "分布式系统通常通过数据复制来避免故障，其中每个元素都被复制到多个节点上。",
    "Japanese": "分散システムは通常、データの複製によって障害を回避します。",
    "Korean": "분산 시스템은 일반적으로 데이터 복제를 통해 장애를 방지합니다. ",
    "Arabic": "تتجنب الأنظمة الموزعة عادة الأعطال من خلال نسخ البيانات. ",
    "Hindi": "वितरित प्रणालियाँ आमतौर पर डेटा प्रतिकृति के माध्यम से विफलताओं से बचती हैं। ",
    "digits": "31415926535897932384626433832795028841971693993751",
    "emoji": "😀🚀🎉🐳🌍🔥🍕🎸🧠🛰",
    "JSON": '{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}, ',
    "code": "for name, inner in each.items():\n    if name != file:\n        left.append(inner)\n",
}


@pytest.fixture(scope="module")
def qwen() -> Callable[[str], int]:
    """The number of tokens with Qwen3's vocabulary."""
    tokenizers = pytest.importorskip("tokenizers")
    path = DATA_SETS / "qwen3-tokenizer" / "tokenizer.json.gz"
    if not path.exists():
        pytest.skip("TOOLGATE_SHARED has no qwen3-tokenizer")
    tokenizer = tokenizers.Tokenizer.from_str(gzip.decompress(path.read_bytes()).decode())
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("script", PROSE)
def test_texts_have_at_most_the_estimated_tokens(script: str, qwen: Callable[[str], int]) -> None:
    text = PROSE[script] * 20
    tokens = qwen(text)
    assert tokens <= text_tokens([text]) < 4 * tokens


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(PARTS + TEXTS + OUTPUT_FIELDS), JSON))
def test_token_estimate_of_any_body_is_positive(body: dict[str, Any]) -> None:
    assert total(body, tpm=10) >= 1
