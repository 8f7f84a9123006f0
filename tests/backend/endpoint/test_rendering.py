"""Errors of vLLM's renderer, and images."""

import base64
from io import BytesIO

import pytest
from PIL import Image
from vllm.exceptions import VLLMValidationError

from toolgate_backend.endpoint.rendering import (
    for_vllm,
    image_error,
    refuse_media_urls,
    rendering_error,
)
from toolgate_core.errors import (
    ContextLengthExceeded,
    InvalidRequest,
    TemplateRefused,
    UnsupportedParameter,
)
from toolgate_core.wire import ChatPrompt


# --- rendering ---
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
def test_media_urls_are_rejected(part):
    """Some content part formats are specific to vLLM, which also accepts parts without a type."""
    text = {"type": "text", "text": "see"}
    messages = ({"role": "user", "content": "hi"}, {"role": "user", "content": [text, part]})
    with pytest.raises(UnsupportedParameter) as refused:
        refuse_media_urls(ChatPrompt(messages=messages))
    assert refused.value.param == "messages[1].content[1]"


def test_data_urls_are_accepted():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    refuse_media_urls(ChatPrompt(messages=({"role": "user", "content": [image, "hm"]},)))


@pytest.mark.parametrize(
    "text",
    [
        "This model's maximum context length is 4096 tokens. However, your prompt contains at "
        "least 4097 input tokens, which exceeds this limit even without any output tokens.",
        "truncate_prompt_tokens=5000 cannot be greater than max_model_len = 4096.",
    ],
)
def test_errors_about_lengths_are_recognized(text):
    error = rendering_error(VLLMValidationError(text, parameter="input_tokens", value=4097))
    assert isinstance(error, ContextLengthExceeded)


@pytest.mark.parametrize(
    ("contained", "prompt"),
    [
        ("4500 input tokens, which exceeds this limit even without any output tokens.", 4500),
        ("at least 4097 input tokens, which exceeds this limit.", None),
        ("99999 characters (more than 40960 characters).", None),
    ],
)
def test_numbers_of_an_error_about_lengths_are_known(contained, prompt):
    text = (
        "This model's maximum context length is 4096 tokens. However, your prompt contains "
        f"{contained}"
    )
    error = rendering_error(VLLMValidationError(text, parameter="input_tokens", value=1))
    assert isinstance(error, ContextLengthExceeded)
    assert (error.context, error.prompt, error.param) == (4096, prompt, "messages")


def test_messages_with_the_words_of_those_errors_are_not():
    text = "continue_final_message is set but … Rendered chat: the maximum context length is"
    assert isinstance(rendering_error(ValueError(text)), TemplateRefused)


def test_reasoning_is_in_the_field_that_vllm_reads():
    turn = {"role": "assistant", "content": "Hi"}
    assert for_vllm({**turn, "reasoning_content": "Hm"})["reasoning"] == "Hm"
    assert for_vllm({**turn, "reasoning_content": "Hm", "reasoning": "Oh"})["reasoning"] == "Oh"
    assert for_vllm(turn) == turn


def data_uri(data):
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def png(side=8):
    file = BytesIO()
    Image.effect_noise((side, side), 50).save(file, "PNG")
    return file.getvalue()


def messages(*uris):
    parts = [{"type": "image_url", "image_url": {"url": uri}} for uri in uris]
    text = {"type": "text", "text": "see"}
    return [{"role": "user", "content": "hi"}, {"role": "user", "content": [text, *parts]}]


def broken_chunk():
    """Pillow raises SyntaxError."""
    data = bytearray(png())
    at = data.index(b"IDAT")
    data[at : at + 4] = b"\0\0\0\0"
    return bytes(data)


INVALID = {
    "truncated": png(64)[:900],
    "no chunks": b"\x89PNG\r\n\x1a\n" + b"0" * 40,
    "a broken chunk": broken_chunk(),
    "nothing": b"",
}


@pytest.mark.parametrize("name", INVALID)
async def test_an_image_that_cannot_be_decoded_is_named(name):
    given = messages(data_uri(png()), data_uri(INVALID[name]), data_uri(png()))
    error = await image_error(given, ValueError("Failed to load image"), truncated=False)
    assert isinstance(error, InvalidRequest)
    assert (error.param, error.code) == ("messages[1].content[2].image_url", "invalid_request")
    assert "cannot be decoded" in error.message


async def test_invalid_base64_is_named():
    given = messages("data:image/png;base64,AAAAA")
    error = await image_error(given, ValueError("Incorrect padding"), truncated=False)
    assert error is not None
    assert "base64" in error.message


@pytest.mark.parametrize(("limit", "of_pillow", "most"), [("100", 1000, 100), ("0", 50, 100)])
async def test_an_image_with_too_many_pixels_is_named(monkeypatch, limit, of_pillow, most):
    """By the limit of vLLM, or that of Pillow, twice its setting."""
    monkeypatch.setenv("VLLM_MAX_IMAGE_PIXELS", limit)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", of_pillow)
    given = messages(data_uri(png(8)), data_uri(png(40)))
    error = await image_error(given, ValueError("exceed the maximum"), truncated=False)
    assert error is not None
    assert error.param == "messages[1].content[2].image_url"
    assert f"at most {most}" in error.message


async def test_more_images_than_the_backend_accepts():
    given = messages(*[data_uri(png())] * 3)
    limit = ValueError("At most 2 image(s) may be provided in one prompt. Set --limit-mm-…")
    error = await image_error(given, limit, truncated=False)
    assert error is not None
    assert error.param == "messages[1].content[3].image_url"
    assert "3 images" in error.message
    assert "at most 2" in error.message


@pytest.mark.parametrize("truncated", [True, False])
async def test_images_that_the_prompt_lacks(truncated):
    lacking = AssertionError("Failed to apply prompt replacement for mm_items['image'][0]")
    error = await image_error(messages(data_uri(png())), lacking, truncated=truncated)
    assert error is not None
    if truncated:
        assert error.param == "truncate_prompt_tokens"
    else:
        assert isinstance(error, TemplateRefused)
        assert "leaves out an image" in error.message


async def test_other_errors_are_not_errors_of_images():
    for given in (messages(), messages(data_uri(png()))):
        assert await image_error(given, ValueError("No user query"), truncated=True) is None
