from __future__ import annotations

from typing import Any

import pytest

from toolgate_backend.endpoint.rendering import refuse_media_urls
from toolgate_core.errors import UnsupportedParameter
from toolgate_core.wire import ChatPrompt


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}},
        {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
        {"type": "image_url", "image_url": "http://10.0.0.1/"},
        {"type": "image_url", "uuid": "seen-before"},
        {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}},
        {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
        {"image_url": "http://10.0.0.1/"},
    ],
    ids=str,
)
def test_media_urls_are_rejected(part: dict[str, Any]) -> None:
    """Some content part formats are specific to vLLM, which also accepts parts without a type."""
    text = {"type": "text", "text": "see"}
    messages = ({"role": "user", "content": "hi"}, {"role": "user", "content": [text, part]})
    with pytest.raises(UnsupportedParameter) as refused:
        refuse_media_urls(ChatPrompt(messages=messages))
    assert refused.value.param == "messages[1].content[1]"


def test_data_urls_are_accepted() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    refuse_media_urls(ChatPrompt(messages=({"role": "user", "content": [image, "hm"]},)))
