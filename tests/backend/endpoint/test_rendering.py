from __future__ import annotations

from typing import Any

import pytest

from toolgate_backend.endpoint.rendering import reasoning_start, refuse_media_urls
from toolgate_core.errors import UnsupportedParameter
from toolgate_core.wire import ChatPrompt, MarkIds, ReasoningMode

MARKS = MarkIds(reasoning_begin=3, reasoning_end=4, end_of_turn=(5,))


@pytest.mark.parametrize(
    ("prompt", "mode", "start"),
    [
        ([9, 5, 9], "default", "may"),
        ([9, 5, 9], "on", "must"),
        ([9, 5, 9], "off", "closed"),
        ([9, 5, 9, 3, 9], "default", "open"),
        ([9, 5, 9, 3, 9], "on", "open"),
        ([9, 5, 9, 3, 9], "off", "open"),
        ([9, 5, 9, 3, 9, 4, 9], "default", "closed"),
        ([9, 5, 9, 3, 9, 4, 9], "off", "closed"),
        ([9, 3, 9, 4, 9, 5, 9], "default", "may"),  # an earlier turn's reasoning
    ],
)
def test_reasoning_start_follows_the_prompt_and_mode(
    prompt: list[int], mode: ReasoningMode, start: str
) -> None:
    assert reasoning_start(prompt, MARKS, mode) == start


def test_reasoning_is_closed_for_a_model_without_reasoning_marks() -> None:
    assert reasoning_start([1, 2], MarkIds(end_of_turn=(5,)), "default") == "closed"


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
