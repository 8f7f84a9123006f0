"""Estimates of the tokens of a request by its text, and tokens in the usage of other providers."""

import base64
import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.proxy.kit import beside
from tests.support.shared_data import DATA as DATA_SETS
from toolgate_proxy.keys.key import Limits
from toolgate_proxy.keys.limit_kinds import Tokens
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
from toolgate_proxy.litellm_host.litellm_route.limit_hook import tokens_of


def user(content):
    return {"messages": [{"role": "user", "content": content}], "max_tokens": 1}


ASKED = user("x" * 396)
"""400 small letters, with the role, and one token."""
SENT = {"messages": ASKED["messages"]}
COMPACTED = {"type": "compaction", "encrypted_content": "x" * 300}


def total(body, **limits):
    return estimate(body, Limits(**limits), output=True).total


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ({**SENT, "max_tokens": 50}, 192),
        ({**SENT, "max_completion_tokens": 50, "n": 3}, 292),
        ({"input": "x" * 400, "max_output_tokens": 10}, 152),
        (SENT, 142 + 1024),
        ({"prompt": "é" * 200, "max_tokens": 0}, 208),
        ({"prompt": [1234] * 200, "max_tokens": 0}, 208),
        ({**SENT, "max_tokens": "many", "n": True}, 142 + 1024),
        ({**SENT, "max_tokens": 50.0, "n": 3.0}, 292),
        (user("data:" + "x" * 9000), 3013),
        ({"input": [*SENT["messages"], COMPACTED, *SENT["messages"]], "max_output_tokens": 1}, 254),
        ({"functions": ["x" * 300], "max_tokens": 1}, 111),
        ({"documents": ["x" * 300], "max_tokens": 1}, 111),
        ({}, 8 + 1024),
        ({"max_tokens": 10**30}, MAX_TOKENS),
    ],
)
def test_tokens_are_estimated_from_prompt_and_output_fields(body, tokens):
    assert total(body) == tokens


def test_small_limits_reserve_less_output():
    assert total({"input": "x" * 30}, tpm=100) == 43
    assert estimate({"input": "x" * 30}, Limits(), output=False).total == 18


@pytest.mark.parametrize(
    "wrapped", [lambda tool: tool, lambda tool: {"type": "namespace", "tools": [tool]}]
)
def test_deferred_tools_are_no_tokens_of_the_prompt(wrapped):
    tool = {"name": "look", "input_schema": {"properties": {"defer_loading": {"type": "string"}}}}
    later = {**tool, "description": "x" * 9000, "defer_loading": True}
    without = total({**ASKED, "tools": [wrapped(tool)]})
    assert without > total(ASKED)
    assert total({**ASKED, "tools": [wrapped(tool), later]}) == without


DATA = "data:image/png;base64," + "A" * 1_000_000
"""Bytes that are 0, as no text has."""
SOURCE = {"type": "base64", "media_type": "image/png", "data": "A" * 1_000_000}
LINKED = "https://a.example/b.png"


def files_of(content):
    """The content parts that can have it."""
    data = base64.b64encode(content).decode()
    source = {"type": "base64", "media_type": "text/plain", "data": data}
    url = f"data:text/plain;base64,{data}"
    return [
        {"type": "document", "source": source},
        {"type": "file", "file": {"file_data": url, "filename": "a.txt"}},
        {"type": "input_file", "file_data": url, "filename": "a.txt"},
        {"type": "input_file", "file_data": data},
    ]


def test_images_and_files_count_the_same_however_they_are_sent_and_long_they_are():
    for part in (
        {"type": "image_url", "image_url": {"url": DATA}},
        {"type": "image_url", "image_url": {"url": LINKED}},
        {"type": "input_image", "image_url": DATA},
        {"type": "image", "source": SOURCE},
        {"type": "image", "source": {"type": "url", "url": LINKED}},
        {"type": "document", "source": SOURCE},
        {"type": "file", "file": {"file_data": DATA}},
        {"type": "input_file", "file_data": DATA},
        {"type": "input_file", "file_data": "é" * 9000},  # not base64
        *files_of(b"%PDF-1.7\n" + b"x" * 9000),
        *files_of(b"\x89PNG\0" + b"x" * 9000),
    ):
        for content in ([part], [{"type": "tool_result", "content": [part]}]):
            assert TOKENS_PER_FILE < total(user(content)) < TOKENS_PER_FILE + 100, str(part)[:90]


@pytest.mark.parametrize("size", [30, 3_000_000])
def test_a_file_of_text_counts_as_its_text(size):
    text = ("ab é 1 " * size)[:size]
    tokens = text_tokens([text])
    for part in files_of(text.encode()):
        assert tokens < total(user([part])) < tokens + 60


def test_the_text_of_a_pdf_counts_beyond_what_was_estimated():
    assert files_beyond_estimate(["x" * 300]) == 0
    assert files_beyond_estimate(["x" * 30_000, "x" * 300]) == 10_100 - 2 * TOKENS_PER_FILE


LONG = {"type": "image_url", "image_url": {"url": "data:" + "x" * 9000}}
PLAIN = {"type": "document", "source": {"type": "text", "data": "x" * 9000}}


@pytest.mark.parametrize(
    "body",
    [
        {"tools": [{"function": {"name": "f", "parameters": {"examples": [LONG]}}}]},
        {"tools": [{"name": "f", "input_schema": {"default": {"type": "image", "source": LONG}}}]},
        {"response_format": {"json_schema": {"schema": {"const": LONG}}}},
        {"messages": [{"content": [{"type": "tool_use", "name": "f", "input": LONG}]}]},
        {"messages": [{"tool_calls": [{"function": {"arguments": json.dumps(LONG)}}]}]},
        {"messages": [{"content": [PLAIN]}]},
        {"documents": [LONG]},
    ],
)
def test_data_that_is_text_of_the_prompt_counts_in_full(body):
    assert 3000 <= total({**body, "max_tokens": 1}) < 3200


ROWS = beside(__file__)


def test_texts_have_at_most_the_estimated_tokens():
    """Of Qwen3's vocabulary."""
    tokenizers = pytest.importorskip("tokenizers")
    path = DATA_SETS / "qwen3-tokenizer" / "tokenizer.json.gz"
    if not path.exists():
        pytest.skip("TOOLGATE_SHARED has no qwen3-tokenizer")
    tokenizer = tokenizers.Tokenizer.from_str(gzip.decompress(path.read_bytes()).decode())
    for script, prose in ROWS["prose"].items():
        text = prose * 20
        tokens = len(tokenizer.encode(text, add_special_tokens=False).ids)
        assert tokens <= text_tokens([text]) < 4 * tokens, script


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(PARTS + TEXTS + OUTPUT_FIELDS), JSON))
def test_token_estimate_of_any_body_is_positive(body):
    assert total(body, tpm=10) >= 1


def test_usage_in_the_form_of_each_api():
    for usage, tokens in ROWS["usage"]:
        assert tokens_of(usage) == (tokens and Tokens(*tokens)), usage
