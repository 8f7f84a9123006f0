"""Invalid images are a 400 in the form of each API, which names the image."""

from __future__ import annotations

import random
from typing import Any

import httpx
import pytest

from tests.models.tiny_vision import IMAGE_TOKENS
from tests.support.apis.messages_api import check_error

from .image_requests import APIS, COUNTS, PATHS, PLACES, Api, Conversation, body, send
from .pictures import BLUE, FORMATS, RED, damaged, data_uri, noise, picture
from .vision import MAX_IMAGES, MAX_PIXELS, MODEL, ImageServer

pytestmark = pytest.mark.slow

BROKEN = data_uri(noise(40)[:2000])
MANY_PIXELS = data_uri(picture("red", side=1 + int(MAX_PIXELS**0.5)))
MANY_BYTES = data_uri(noise(280))
NO_IMAGE = data_uri(b"no image")
OTHER_TYPE = data_uri(picture("red"), "jpeg")
INVALID = {
    "broken": (BROKEN, "can't be decoded"),
    "many pixels": (MANY_PIXELS, f"at most {MAX_PIXELS:,}"),
    "many bytes": (MANY_BYTES, "is larger than 200,000 bytes"),
    "no image": (NO_IMAGE, "is not a PNG, JPEG, GIF or WebP image"),
    "another type": (OTHER_TYPE, "is a PNG image, but its data URI has jpeg"),
}
PARAMS: dict[str, dict[Api, str]] = {
    "user": {
        "chat": "messages[0].content[2].image_url",
        "responses": "input[0].content[2].image_url",
        "messages": "messages[0].content[2].source",
    },
    "result": {
        "chat": "messages[2].content[2].image_url",
        "responses": "input[2].output[2].image_url",
        "messages": "messages[2].content[0].content[2].source",
    },
}
"""The path of the second image."""


def refusal(http: httpx.Client, api: Api, sent: dict[str, Any]) -> dict[str, Any]:
    """The error, which is the same for streams and counts."""
    sent = {**sent, "model": MODEL}
    most = {"max_output_tokens" if api == "responses" else "max_tokens": 5}
    answers = [http.post(PATHS[api], json=sent | most | {"stream": on}) for on in (False, True)]
    if api in COUNTS:
        answers.append(http.post(COUNTS[api], json=sent))
    errors: list[dict[str, Any]] = []
    for answer in answers:
        assert answer.status_code == 400, answer.text
        if api == "messages":
            check_error(answer.json())
        errors.append(answer.json()["error"])
    assert errors == [errors[0]] * len(errors)
    assert errors[0]["type"] == "invalid_request_error"
    return errors[0]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_image_is_named(http: httpx.Client, api: Api, name: str, place: str) -> None:
    image, problem = INVALID[name]
    error = refusal(http, api, body(api, PLACES[place](RED, image)))
    assert (error["code"], error["param"]) == ("invalid_request", PARAMS[place][api])
    assert f"{PARAMS[place][api]!r} " in error["message"]
    assert problem in error["message"]


@pytest.mark.parametrize("form", FORMATS)
def test_damaged_images_are_answered_or_named(http: httpx.Client, form: str) -> None:
    """Decoders raise many types of errors. None is a 5xx, and none harms later requests."""
    rng = random.Random(form)
    statuses = set()
    for _ in range(60):
        image = data_uri(damaged(picture("red", form), rng), form)
        api, place = rng.choice(APIS), rng.choice([*PLACES])
        most = {"max_output_tokens" if api == "responses" else "max_tokens": 2}
        asked = body(api, PLACES[place](BLUE, image)) | {"model": MODEL} | most
        answer = http.post(PATHS[api], json=asked)
        statuses.add(answer.status_code)
        if answer.status_code != 200:
            assert answer.status_code == 400, answer.text
            assert answer.json()["error"]["param"] == PARAMS[place][api]
    assert 400 in statuses
    sent = body("chat", Conversation(images=(RED,))) | {"model": MODEL, "max_tokens": 2}
    assert send(http, "chat", sent).text


@pytest.mark.parametrize("api", APIS)
def test_urls_that_cannot_be_fetched(http: httpx.Client, images: ImageServer, api: Api) -> None:
    for name, problem in (("missing", "returned HTTP 404"), ("text", "is not a PNG")):
        error = refusal(http, api, body(api, PLACES["result"](RED, images.url(name))))
        assert error["param"] == PARAMS["result"][api]
        assert problem in error["message"]


@pytest.mark.parametrize("api", APIS)
def test_more_images_than_the_backend_accepts(http: httpx.Client, api: Api) -> None:
    many = (RED,) * (MAX_IMAGES + 1)
    error = refusal(http, api, body(api, Conversation(images=many)))
    assert error["param"] == PARAMS["user"][api].replace("[2]", f"[{1 + MAX_IMAGES}]")
    assert f"accepts at most {MAX_IMAGES}" in error["message"]


@pytest.mark.parametrize("api", APIS)
def test_images_that_do_not_reach_the_prompt(http: httpx.Client, api: Api) -> None:
    asked = body(api, Conversation(images=(RED,)))
    left_out = {"chat_template_kwargs": {"leave_out_images": True}}
    error = refusal(http, api, asked | left_out)
    assert error["code"] == "template_refused"
    assert "leaves out an image" in error["message"]
    error = refusal(http, api, asked | {"truncate_prompt_tokens": 10})
    assert error["param"] == "truncate_prompt_tokens"


@pytest.mark.parametrize("api", APIS)
def test_the_tokens_of_images_count_towards_the_context(http: httpx.Client, api: Api) -> None:
    words = "one " * 8160
    sent = {"model": MODEL, "max_tokens": 2}
    answer = send(http, api, body(api, Conversation(text=words)) | sent)
    assert 8192 - IMAGE_TOKENS < answer.prompt_tokens < 8191
    sent = {"model": MODEL, "max_output_tokens" if api == "responses" else "max_tokens": 2}
    asked = body(api, Conversation(text=words, images=(RED,))) | sent
    refused = http.post(PATHS[api], json=asked)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "context_length_exceeded"
