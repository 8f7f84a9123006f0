"""Images through the whole stack, with a small vision model of its own, in all three APIs."""

from __future__ import annotations

import itertools
from typing import Any

import httpx
import jsonschema
import pytest

from tests import tools
from tests.models import vision_model
from tests.models.tiny_vision import IMAGE_TOKENS
from toolgate_proxy.demo.model import closers

from .image_requests import APIS, COUNTS, PATHS, PLACES, Answer, Api, Conversation, body, send
from .pictures import BLUE, FORMATS, RED, data_uri, picture
from .vision import MODEL, ImageServer

pytestmark = pytest.mark.slow

SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools.ALL}
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
        sampling["logit_bias"] = closers(vision_model())
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


@pytest.mark.parametrize("api", APIS)
def test_owners_share_no_cached_images(
    http: httpx.Client, teams: dict[str, httpx.Client], api: Api
) -> None:
    image = data_uri(picture("red", side=43 + APIS.index(api)))
    asked = Conversation(images=(image,), text="two " * 300, images_first=True)
    assert greedy(teams["blue"], api, asked).cached_tokens == 0
    assert greedy(teams["blue"], api, asked).cached_tokens > 0
    for other in (teams["green"], http):
        assert greedy(other, api, asked).cached_tokens == 0
        assert greedy(other, api, asked).cached_tokens > 0


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
