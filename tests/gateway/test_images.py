"""Images through the whole stack, with a small vision model of its own, in all three APIs."""

import itertools
import json
import random
from contextlib import ExitStack

import jsonschema
import pytest

from tests import tools
from tests.models import vision_model
from tests.models.tiny_random import CONTEXT
from tests.models.tiny_vision import IMAGE_TOKENS
from tests.support.apis import replies
from tests.support.servers.gateway_process import MASTER_KEY
from tests.support.servers.http_client import sync_client
from toolgate_proxy.ops.demo.model import closers
from toolgate_verify.terms import Api
from toolgate_verify.tools.tool import Tool

from . import kit
from .images import (
    BLUE,
    FORMATS,
    MAX_IMAGES,
    MAX_PIXELS,
    PATHS,
    PLACES,
    RED,
    body,
    damaged,
    data_uri,
    image_server,
    noise,
    picture,
    vision_gateway,
)

pytestmark = pytest.mark.slow

COUNTS = {Api.RESPONSES: "/v1/responses/input_tokens", Api.MESSAGES: "/v1/messages/count_tokens"}
OFFERED = [Tool(each["function"]["name"], "", each["function"]["parameters"]) for each in tools.ALL]
RESAMPLES = "toolgate_resamples_total", "/toolgate/metrics"


@pytest.fixture(scope="module")
def vision(tmp_path_factory):
    """The gateway, and the key of each team."""
    with vision_gateway(tmp_path_factory.mktemp("vision")) as made:
        yield made


@pytest.fixture(scope="module")
def teams(vision):
    """A client with the key of each team, and one with the master key."""
    gateway, keys = vision
    with ExitStack() as clients:
        yield {
            team: clients.enter_context(sync_client(gateway.url, key, timeout=300))
            for team, key in {**keys, "master": MASTER_KEY}.items()
        }


@pytest.fixture
def http(teams):
    return teams["master"]


@pytest.fixture(scope="module")
def images():
    with image_server({"red.png": picture("red"), "text": b"no image"}) as server:
        yield server


def send(http, api, sent):
    [reply] = kit.ask(http, sent, stream=sent.get("stream", False), api=api)
    return reply.answer


def greedy(http, api, *images, **more):
    return send(http, api, body(api, images, max_tokens=12, temperature=0, **more))


def prompt_of(answer):
    assert answer.usage is not None
    return answer.usage.prompt


def cached_of(answer):
    assert answer.usage is not None
    return answer.usage.cached or 0


def same_in_all(http, place, *images):
    """The text and the tokens of the prompt, which are the same in all APIs."""
    answers = [greedy(http, api, *images, place=place) for api in Api]
    found = [(each.text, prompt_of(each)) for each in answers]
    assert found[0][0]
    assert found == [found[0]] * len(found)
    return found[0]


def first_logprobs(http, *images, **more):
    """The highest logprobs of the first token."""
    sent = body(Api.CHAT, images, max_tokens=12, temperature=0, **more)
    answer = http.post(replies.PATHS[Api.CHAT], json=sent | {"logprobs": True, "top_logprobs": 5})
    choice = answer.json()["choices"][0]
    return [each["logprob"] for each in choice["logprobs"]["content"][0]["top_logprobs"]]


@pytest.mark.parametrize("place", PLACES)
def test_the_answer_depends_on_the_images(http, place):
    different = (), (RED,), (BLUE,), (RED, BLUE), (BLUE, RED)
    none, red, blue, both, swapped = (same_in_all(http, place, *each) for each in different)
    assert red == same_in_all(http, place, RED)
    assert red[0] != blue[0]
    counts = [each[1] - none[1] for each in (red, blue, both, swapped)]
    assert counts == [IMAGE_TOKENS, IMAGE_TOKENS, 2 * IMAGE_TOKENS, 2 * IMAGE_TOKENS]
    logprobs = [first_logprobs(http, *each, place=place) for each in different]
    assert logprobs[1] == pytest.approx(first_logprobs(http, RED, place=place), abs=1e-4)
    for one, other in itertools.combinations(logprobs, 2):
        assert one != pytest.approx(other, abs=1e-3)


@pytest.mark.parametrize("place", PLACES)
def test_forced_calls_are_valid_and_the_same_in_all_apis(http, place):
    schemas = {tool.name: tool.parameters for tool in OFFERED}
    names = set()
    for seed in range(5):
        extra = {"seed": seed, "logit_bias": closers(vision_model())}
        asked = {"place": place, "tools": OFFERED, "extra": extra}
        asked |= {"max_tokens": 400, "temperature": 1.0}
        made = [
            send(http, api, body(api, (RED, BLUE), stream=stream, **asked))
            for api in Api
            for stream in (False, True)
        ]
        found = [[(call.name, json.loads(call.arguments)) for call in each.calls] for each in made]
        assert found[0]
        assert found == [found[0]] * len(found)
        assert {each.text for each in made} == {made[0].text}
        prompt = prompt_of(made[0])
        assert {prompt_of(each) for each in made} == {prompt}
        for name, arguments in found[0]:
            jsonschema.validate(arguments, schemas[name])
            names.add(name)
        for api, path in COUNTS.items():
            counted = http.post(path, json=body(api, (RED, BLUE), **asked))
            assert counted.json()["input_tokens"] == prompt
    assert len(names) > 1


@pytest.mark.parametrize(
    ("form", "mode"),
    [
        (form, mode)
        for form in FORMATS
        for mode in ("RGB", "RGBA", "L", "P")
        if form != "JPEG" or mode not in ("RGBA", "P")  # which it has not
    ],
)
def test_formats(http, form, mode):
    answer = greedy(http, Api.CHAT, data_uri(picture("red", form, mode), form))
    red = greedy(http, Api.CHAT, RED)
    assert prompt_of(answer) == prompt_of(red)
    if mode in ("RGB", "RGBA") and form != "JPEG":
        assert answer.text == red.text


@pytest.mark.parametrize("place", PLACES)
def test_urls_are_fetched(http, images, place):
    images.asked.clear()
    fetched = same_in_all(http, place, images.url("red.png"), BLUE)
    assert images.asked == ["red.png"] * len(Api)
    assert fetched[0] == greedy(http, Api.CHAT, RED, BLUE, place=place).text


def test_the_prefix_cache_distinguishes_images(http):
    long = {"text": "one " * 300, "before": True}
    red = data_uri(picture("red", side=41))
    first, again, blue = (greedy(http, Api.CHAT, each, **long) for each in (red, red, BLUE))
    assert cached_of(first) == cached_of(blue) == 0
    assert cached_of(again) > 0
    assert again.text == first.text
    logprobs = [first_logprobs(http, each, **long) for each in (red, BLUE)]
    assert logprobs[0] != pytest.approx(logprobs[1], abs=1e-3)


@pytest.mark.parametrize("api", Api)
def test_owners_share_no_cached_images(teams, api):
    image = data_uri(picture("red", side=43 + [*Api].index(api)))
    long = {"text": "two " * 300, "before": True}
    for team in ("blue", "green", "master"):
        assert cached_of(greedy(teams[team], api, image, **long)) == 0
        assert cached_of(greedy(teams[team], api, image, **long)) > 0


def test_a_call_that_failed_validation_continues_with_the_images(http):
    digit = {"type": "integer", "minimum": 0, "maximum": 4}
    digits = {"type": "array", "items": digit, "minItems": 3, "maxItems": 3, "uniqueItems": True}
    parameters = tools.tool("set_digits", {"digits": digits})["function"]["parameters"]
    asked = {"tools": [Tool("set_digits", "", parameters)], "parallel": False}
    asked |= {"max_tokens": 100, "temperature": 1.0}
    before = kit.metric(http, *RESAMPLES)
    for seed in range(8):
        for image in (RED, BLUE):
            whole, streamed = (
                send(
                    http,
                    Api.CHAT,
                    body(Api.CHAT, (image,), stream=stream, **asked) | {"seed": seed},
                )
                for stream in (False, True)
            )
            calls = [
                [(call.name, call.arguments) for call in each.calls] for each in (whole, streamed)
            ]
            assert calls[0] == calls[1]
            assert prompt_of(whole) == prompt_of(streamed)
            for _, arguments in calls[0]:
                jsonschema.validate(json.loads(arguments), parameters)
    assert kit.metric(http, *RESAMPLES) > before


# --- a 400 in the form of each API, which names the image ---


def refusal(http, api, sent):
    """The error, which is the same for streams and counts."""
    errors = [kit.refusal(http, sent, stream=stream, api=api) for stream in (False, True)]
    if api in COUNTS:
        answer = http.post(COUNTS[api], json=sent)
        assert answer.status_code == 400, answer.text
        errors.append(replies.error(api, answer.json()))
    assert errors == [errors[0]] * len(errors)
    assert errors[0]["type"] == "invalid_request_error"
    return errors[0]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("api", Api)
def test_an_invalid_image_is_named(http, images, api, place):
    path = PATHS[place][api]
    for image, problem in (
        (data_uri(noise(40)[:2000]), "cannot be decoded"),
        (data_uri(picture("red", side=1 + int(MAX_PIXELS**0.5))), f"at most {MAX_PIXELS:,}"),
        (data_uri(noise(280)), "bytes (the limit)"),
        (images.url("missing"), "returned HTTP 404"),
        (images.url("text"), "is not a PNG"),
    ):
        error = refusal(http, api, body(api, (RED, image), place=place))
        assert (error["code"], error["param"]) == ("invalid_request", path)
        assert f"{path!r} " in error["message"]
        assert problem in error["message"]


@pytest.mark.parametrize("form", FORMATS)
def test_damaged_images_are_answered_or_named(http, form):
    """Decoders raise many types of errors. None is a 5xx, and none harms later requests."""
    rng = random.Random(form)
    statuses = set()
    for _ in range(60):
        image = data_uri(damaged(picture("red", form), rng), form)
        api, place = rng.choice([*Api]), rng.choice(PLACES)
        asked = body(api, (BLUE, image), place=place, max_tokens=2)
        answer = http.post(replies.PATHS[api], json=asked)
        statuses.add(answer.status_code)
        if answer.status_code != 200:
            assert answer.status_code == 400, answer.text
            assert answer.json()["error"]["param"] == PATHS[place][api]
    assert 400 in statuses
    assert greedy(http, Api.CHAT, RED).text


@pytest.mark.parametrize("api", Api)
def test_images_that_do_not_reach_the_prompt_are_refused(http, api):
    error = refusal(http, api, body(api, (RED,) * (MAX_IMAGES + 1)))
    assert error["param"] == PATHS["user"][api].replace("[2]", f"[{1 + MAX_IMAGES}]")
    assert f"accepts at most {MAX_IMAGES}" in error["message"]
    asked = body(api, (RED,))
    left_out = {"chat_template_kwargs": {"leave_out_images": True}}
    error = refusal(http, api, asked | left_out)
    assert error["code"] == "template_refused"
    assert "leaves out an image" in error["message"]
    error = refusal(http, api, asked | {"truncate_prompt_tokens": 10})
    assert error["param"] == "truncate_prompt_tokens"


@pytest.mark.parametrize("api", Api)
def test_the_tokens_of_images_count_towards_the_context(http, api):
    words = "one " * (CONTEXT - 32)
    answer = send(http, api, body(api, text=words, max_tokens=2))
    assert CONTEXT - IMAGE_TOKENS < prompt_of(answer) < CONTEXT - 1
    error = kit.refusal(http, body(api, (RED,), text=words, max_tokens=2), api=api)
    assert error["code"] == "context_length_exceeded"
