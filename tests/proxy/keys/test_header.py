"""The API key in the headers of a request."""

from __future__ import annotations

from itertools import combinations

import pytest
from litellm.proxy.auth import user_api_key_auth
from starlette.requests import Request

from toolgate_core.errors import InvalidKey
from toolgate_proxy.keys.header import KEY_HEADERS, key_of
from toolgate_proxy.litellm_host.auth import KEY_HEADERS as OF_LITELLM
from toolgate_proxy.litellm_host.private_names import either


@pytest.mark.parametrize("header", KEY_HEADERS)
@pytest.mark.parametrize(
    "scheme", [b"", b"Bearer ", b"bearer ", b"BEARER ", b"bEaReR   ", b"Basic "]
)
def test_a_key_is_read_from_every_header_and_scheme(header: bytes, scheme: bytes) -> None:
    assert key_of([(b"accept", b"*/*"), (header, scheme + b"sk-1")]) == "sk-1"


@pytest.mark.parametrize(
    "value",
    [
        "Bearer sk-1",
        "bearer sk-1",
        "Basic sk-1",
        "AWS4-HMAC-SHA256 Credential=Bearer sk-1/20261124/x/bedrock/aws4_request, Signature=x",
        "AWS4-HMAC-SHA256 Credential=sk-1/20261124/x/bedrock/aws4_request, Signature=x",
    ],
)
def test_litellm_reads_the_same_key(value: str) -> None:
    read_by_litellm = either(user_api_key_auth, "get_bearer_token")
    assert key_of([(b"authorization", value.encode())]) == read_by_litellm(value) == "sk-1"


@pytest.mark.parametrize("value", [b"Bearer", b"Bearer: sk-1", b"Digest sk-1", b"sk-1 Bearer"])
def test_anything_else_is_part_of_the_key(value: bytes) -> None:
    assert key_of([(b"authorization", value)]) == value.decode()


def test_a_request_without_a_key() -> None:
    assert key_of([]) is None
    assert key_of([(b"accept", b"sk-1"), (b"authorization", b""), (b"x-api-key", b" ")]) is None


def test_the_same_key_may_be_sent_twice() -> None:
    same = [(b"authorization", b"bearer k"), (b"x-api-key", b"k"), (b"api-key", b"")]
    assert key_of(same) == "k"


@pytest.mark.parametrize("names", combinations(KEY_HEADERS, 2))
def test_the_header_that_litellm_prefers_decides(names: tuple[bytes, bytes]) -> None:
    sent = [(names[1], b"Bearer sk-2"), (names[0], b"Bearer sk-1")]
    found, _ = user_api_key_auth.get_api_key(
        **{
            argument: dict(sent).get(header.encode(), b"").decode() or None
            for argument, header in OF_LITELLM.items()
        },
        pass_through_endpoints=None,
        route="/v1/chat/completions",
        request=Request({"type": "http", "headers": sent}),
    )
    assert key_of(sent) == key_of(reversed(sent)) == found.removeprefix("Bearer ") == "sk-1"


def test_a_header_with_two_keys_is_refused() -> None:
    sent = [(b"x-litellm-api-key", b"sk-0"), (b"x-api-key", b"sk-1"), (b"x-api-key", b"sk-2")]
    with pytest.raises(InvalidKey, match="several 'x-api-key' headers") as raised:
        key_of(sent)
    assert "sk-" not in str(raised.value)
