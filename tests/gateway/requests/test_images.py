"""Images through the whole stack, with a small vision model of its own, in all three APIs."""

from __future__ import annotations

import base64
import itertools
import random
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import httpx
import jsonschema
import pytest
from PIL import Image

from tests import tools
from tests.gateway.vision import (
    MAX_IMAGES,
    MAX_PIXELS,
    MODEL,
    ImageServer,
    image_server,
    vision_gateway,
)
from tests.models import tiny_vision
from tests.models.tiny_vision import IMAGE_TOKENS
from tests.support.apis.messages_api import check_error
from tests.support.servers.gateway_process import MASTER_KEY
from tests.support.servers.http_client import bearer
from toolgate_proxy.demo.run import closers

from .image_requests import APIS, COUNTS, PATHS, Answer, Api, Conversation, body, send

pytestmark = pytest.mark.slow

SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools.ALL}
FORMATS = ("PNG", "JPEG", "GIF", "WEBP")


def picture(color: str, form: str = "PNG", mode: str = "RGB", side: int = 40) -> bytes:
    file = BytesIO()
    Image.new("RGB", (side, side), color).convert(mode).save(file, form)
    return file.getvalue()


def noise(side: int) -> bytes:
    file = BytesIO()
    data = random.Random(0).randbytes(3 * side * side)
    Image.frombytes("RGB", (side, side), data).save(file, "PNG")
    return file.getvalue()


def data_uri(data: bytes, form: str = "png") -> str:
    return f"data:image/{form.lower()};base64,{base64.b64encode(data).decode()}"


RED, BLUE = (data_uri(picture(color)) for color in ("red", "blue"))
PLACES = {
    "user": lambda *images: Conversation(images=images),
    "result": lambda *images: Conversation(result=images),
}
"""Where images are: in the user's message, or in the result of a call."""


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with vision_gateway(tmp_path_factory.mktemp("vision")) as gateway:
        headers = bearer(MASTER_KEY)
        with httpx.Client(base_url=gateway.url, headers=headers, timeout=300, verify=False) as http:
            yield http


@pytest.fixture(scope="module")
def images() -> Iterator[ImageServer]:
    with image_server({"red.png": picture("red"), "text": b"no image"}) as server:
        yield server


GREEDY = {"model": MODEL, "max_tokens": 12, "temperature": 0}


def greedy(http: httpx.Client, api: Api, asked: Conversation) -> Answer:
    return send(http, api, {**body(api, asked), **GREEDY})


def same_in_all(http: httpx.Client, asked: Conversation) -> Answer:
    """The answer, which is the same in all APIs."""
    made = [greedy(http, api, asked) for api in APIS]
    assert made[0].text
    assert [each.text for each in made] == [made[0].text] * len(APIS)
    assert [each.prompt_tokens for each in made] == [made[0].prompt_tokens] * len(APIS)
    return made[0]


@pytest.mark.parametrize("place", PLACES)
def test_the_answer_depends_on_the_images(http: httpx.Client, place: str) -> None:
    given = PLACES[place]
    none, red, blue, both, swapped, again = (
        same_in_all(http, given(*each))
        for each in ((), (RED,), (BLUE,), (RED, BLUE), (BLUE, RED), (RED,))
    )
    assert red == again
    assert red.text != blue.text
    counts = [each.prompt_tokens - none.prompt_tokens for each in (red, blue, both, swapped)]
    assert counts == [IMAGE_TOKENS, IMAGE_TOKENS, 2 * IMAGE_TOKENS, 2 * IMAGE_TOKENS]
    different = (), (RED,), (BLUE,), (RED, BLUE), (BLUE, RED)
    logprobs = [first_logprobs(http, given(*each)) for each in different]
    assert logprobs[1] == pytest.approx(first_logprobs(http, given(RED)), abs=1e-4)
    for one, other in itertools.combinations(logprobs, 2):
        assert one != pytest.approx(other, abs=1e-3)


def first_logprobs(http: httpx.Client, asked: Conversation) -> list[float]:
    """The highest logprobs of the first token."""
    sent = {**body("chat", asked), **GREEDY, "logprobs": True, "top_logprobs": 5}
    choice = http.post(PATHS["chat"], json=sent).json()["choices"][0]
    return [each["logprob"] for each in choice["logprobs"]["content"][0]["top_logprobs"]]


@pytest.mark.parametrize("place", PLACES)
def test_forced_calls_are_valid_and_the_same_in_all_apis(http: httpx.Client, place: str) -> None:
    asked = PLACES[place](RED, BLUE)
    names = set()
    for seed in range(5):
        sampling = {"model": MODEL, "max_tokens": 400, "temperature": 1.0, "seed": seed}
        sampling["logit_bias"] = closers(tiny_vision())
        made = [
            send(http, api, {**body(api, asked, tools=tools.ALL), **sampling}, stream=stream)
            for api in APIS
            for stream in (False, True)
        ]
        assert made[0].calls
        for each in made:
            assert (each.text, each.calls) == (made[0].text, made[0].calls)
            assert each.prompt_tokens == made[0].prompt_tokens
        for name, arguments in made[0].calls:
            jsonschema.validate(arguments, SCHEMAS[name])
            names.add(name)
        for api in COUNTS:
            counted = count(http, api, {**body(api, asked, tools=tools.ALL), "model": MODEL})
            assert counted == made[0].prompt_tokens
    assert len(names) > 1


def count(http: httpx.Client, api: str, sent: dict[str, Any]) -> int:
    answer = http.post(COUNTS[api], json=sent)
    assert answer.status_code == 200, answer.text
    return int(answer.json()["input_tokens"])


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P"])
def test_formats(http: httpx.Client, form: str, mode: str) -> None:
    if form == "JPEG" and mode in ("RGBA", "P"):
        return  # JPEG has neither
    asked = Conversation(images=(data_uri(picture("red", form, mode), form),))
    answer = greedy(http, "chat", asked)
    if mode in ("RGB", "RGBA") and form != "JPEG":
        assert answer == greedy(http, "chat", Conversation(images=(RED,)))


@pytest.mark.parametrize("place", PLACES)
def test_urls_are_fetched(http: httpx.Client, images: ImageServer, place: str) -> None:
    images.asked.clear()
    fetched = same_in_all(http, PLACES[place](images.url("red.png"), BLUE))
    assert images.asked == ["red.png"] * len(APIS)
    assert fetched == greedy(http, "chat", PLACES[place](RED, BLUE))


def test_the_prefix_cache_distinguishes_images(http: httpx.Client) -> None:
    def asked(image: str) -> Conversation:
        return Conversation(images=(image,), text="one " * 300, images_first=True)

    red = data_uri(picture("red", side=41))
    first, again, blue = (greedy(http, "chat", asked(each)) for each in (red, red, BLUE))
    assert first.cached_tokens == blue.cached_tokens == 0
    assert again.cached_tokens > 0
    assert again.text == first.text
    logprobs = [first_logprobs(http, asked(each)) for each in (red, BLUE)]
    assert logprobs[0] != pytest.approx(logprobs[1], abs=1e-3)


def test_a_call_that_failed_validation_continues_with_the_images(http: httpx.Client) -> None:
    digit = {"type": "integer", "minimum": 0, "maximum": 4}
    digits = {"type": "array", "items": digit, "minItems": 3, "maxItems": 3, "uniqueItems": True}
    tool = tools.tool("set_digits", {"digits": digits})
    sampling = {"model": MODEL, "max_tokens": 100, "temperature": 1.0}
    before = resampled(http)
    for seed in range(8):
        for images in ((RED,), (BLUE,)):
            asked = body("chat", Conversation(images=images), tools=[tool])
            asked["parallel_tool_calls"] = False
            whole, streamed = (
                send(http, "chat", {**asked, **sampling, "seed": seed}, stream=stream)
                for stream in (False, True)
            )
            assert (whole.calls, whole.prompt_tokens) == (streamed.calls, streamed.prompt_tokens)
            for _, arguments in whole.calls:
                jsonschema.validate(arguments, tool["function"]["parameters"])
    assert resampled(http) > before


def resampled(http: httpx.Client) -> float:
    lines = http.get("/toolgate/metrics").text.splitlines()
    found = [line for line in lines if line.startswith("toolgate_resamples_total")]
    return sum(float(line.rpartition(" ")[2]) for line in found)


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
