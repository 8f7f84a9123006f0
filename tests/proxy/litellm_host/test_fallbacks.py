"""The models to which a request falls back, as LiteLLM's router would choose them, and retries."""

from itertools import pairwise
from pathlib import Path

import litellm
import pytest
import yaml

from tests.support.litellm.router import row, use
from toolgate_core import errors
from toolgate_proxy.litellm_host.routing import fallbacks as of_request
from toolgate_proxy.litellm_host.routing.fallback_entries import (
    MAX_NAME,
    MAX_REQUESTED,
    Fallback,
    all_of,
    requested_fallbacks,
)
from toolgate_proxy.litellm_host.routing.fallbacks import Fallbacks
from toolgate_proxy.litellm_host.routing.model_route import ModelRoute
from toolgate_proxy.litellm_host.routing.router import Sender

MODELS = ("tiny", "b", "c", "d", "e", "f", "g", "h")
FAILED = errors.BackendFailed("It broke.")
TOO_LONG = errors.ContextLengthExceeded("It is too long.")
CHAIN = [{model: [after]} for model, after in pairwise(MODELS)]
CONFIGURED = yaml.safe_load((Path(__file__).parent / "fallbacks.yaml").read_text())
CONFIGURED["a long chain"] = {"fallbacks": CHAIN}
CONFIGURED["a short limit"] = {"fallbacks": CHAIN, "max_fallbacks": 2}


async def anyone(model):
    return True


def route_of(model, sender=None):
    return ModelRoute(model, (None, None), None, None, False, False, False, ())


def at(model="tiny"):
    """The fallbacks of a request that is at its own model."""
    return Fallbacks(route_of(model), Sender(), model)


async def tried(error, requested=None, model="tiny"):
    """The models that are tried one after the other if all fail with `error`."""
    fallbacks, found = at(model), [model]
    fallbacks.requested = requested and requested_fallbacks({"fallbacks": requested})
    while (last := await fallbacks.go_on(error, anyone)) is None:
        found.append(fallbacks.model)
    assert fallbacks.attempted == len(found) - 1
    assert (fallbacks.first.model, fallbacks.route.model, last) == (model, model, error)
    return ["tiny" if each == "nick" else each for each in found]


async def tried_by_litellm(monkeypatch, router, error, model="tiny", **params):
    kind = litellm.InternalServerError
    if error is TOO_LONG:
        kind = litellm.ContextWindowExceededError
    found = []

    async def fail(**arguments):
        found.append(arguments["api_base"].removeprefix("http://"))
        raise kind("No.", llm_provider="toolgate", model="tiny")

    monkeypatch.setattr(litellm, "acompletion", fail)
    with pytest.raises(kind):
        await router.acompletion(model, messages=[{"role": "user", "content": "hi"}], **params)
    return found


def used(monkeypatch, **settings):
    monkeypatch.setattr(of_request, "own_route", route_of)
    return use(monkeypatch, *(row(model, group=model) for model in MODELS), **settings)


async def gone_on(monkeypatch, configured=None, may_use=anyone):
    """The fallbacks of a request whose first model failed."""
    used(monkeypatch, fallbacks=[{"tiny": configured or ["b", "c"]}])
    fallbacks = at()
    assert await fallbacks.go_on(FAILED, may_use) is None
    return fallbacks


@pytest.mark.parametrize("error", [FAILED, TOO_LONG], ids=["failed", "too long"])
@pytest.mark.parametrize("name", CONFIGURED)
async def test_models_are_tried_in_the_order_of_litellms_router(monkeypatch, name, error):
    router, model = used(monkeypatch, **CONFIGURED[name]), "nick" if "alias" in name else "tiny"
    expected = await tried_by_litellm(monkeypatch, router, error, model)
    assert await tried(error, model=model) == expected
    assert ("b" in expected) is (name == "for an alias") or "alias" not in name


@pytest.mark.parametrize(
    "requested",
    [["c", "b"], [{"model": "c"}, {"model": "b"}], [{"tiny": ["c"]}], [{"b": ["c"]}], [], ["tiny"]],
    ids=str,
)
async def test_fallbacks_of_a_request_replace_those_of_the_configuration(monkeypatch, requested):
    router = used(monkeypatch, fallbacks=[{"tiny": ["d"]}, {"c": ["e"]}])
    for error in (FAILED, TOO_LONG):
        expected = await tried_by_litellm(monkeypatch, router, error, fallbacks=requested)
        assert await tried(error, requested) == expected
    # LiteLLM would leave objects beside names out.
    assert await tried(FAILED, [{"model": "c"}, "b"]) == ["tiny", "c", "b"]


async def test_a_fallback_may_replace_parameters_and_the_key_must_be_allowed_its_model(monkeypatch):
    fallbacks = await gone_on(monkeypatch, [{"model": "b", "temperature": 0.5}])
    assert fallbacks.current == Fallback("b", {"temperature": 0.5})
    sent = {"model": "tiny", "temperature": 1, "seed": 3}
    assert fallbacks.adapt(sent) == {"model": "b", "temperature": 0.5, "seed": 3}

    async def only_c(model):
        return model == "c"

    fallbacks = await gone_on(monkeypatch, may_use=only_c)
    assert (fallbacks.current, fallbacks.attempted) == (Fallback("c"), 1)


@pytest.mark.parametrize(
    "kind",
    [
        errors.InvalidRequest,
        errors.UnsupportedParameter,
        errors.InternalFault,
        errors.ResponsesUnavailable,
    ],
)
async def test_an_error_of_the_request_or_of_the_gateway_tries_no_model_and_ends_no_list(
    monkeypatch, kind
):
    used(monkeypatch, fallbacks=[{"tiny": ["b"]}])
    assert await tried(kind("No.")) == ["tiny"]
    fallbacks = await gone_on(monkeypatch)
    assert fallbacks.current == Fallback("b")
    if kind is errors.InvalidRequest:
        assert await fallbacks.go_on(kind("No."), anyone) is None
        assert fallbacks.current == Fallback("c")
    assert fallbacks.first_error is FAILED


@pytest.mark.parametrize(
    "error", [errors.RetiredKey("No."), errors.RateLimited("No.", retry_after=1)], ids=str
)
async def test_errors_of_the_key_end_the_request(monkeypatch, error):
    fallbacks = await gone_on(monkeypatch)
    with pytest.raises(type(error)):
        await fallbacks.go_on(error, anyone)


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ("b", "fallbacks"),
        ({"tiny": ["b"]}, "fallbacks"),
        (["b"] * (MAX_REQUESTED + 1), "fallbacks"),
        (["b", 3], "fallbacks[1]"),
        ([{"*": ["b"] * (MAX_REQUESTED + 1)}], "fallbacks[0]"),
        ([{}], "fallbacks[0]"),
        ([{"tiny": ["b"]}, "tiny"], "fallbacks[1]"),
        (["tiny", {"tiny": ["b"]}], "fallbacks[1]"),
        ([{"tiny": ["b"], "b": ["c"]}], "fallbacks[0]"),
        ([{"tiny": ["b", {"b": ["c"]}]}], "fallbacks[0]"),
        ([{"tiny": ["b", 3]}], "fallbacks[0]"),
        ([{"model": 3}], "fallbacks[0]"),
        ([{"tiny": "b"}], "fallbacks[0]"),
        ([["b"]], "fallbacks[0]"),
        (["b" * (MAX_NAME + 1)], "fallbacks[0]"),
        ([{"model": "b", "api_base": "http://x"}], "fallbacks[0]"),
        ([{"tiny": ["c", {"model": "b", "mock_response": "x"}]}], "fallbacks[0]"),
    ],
    ids=str,
)
def test_invalid_fallbacks_of_a_request_are_refused(given, param):
    with pytest.raises(errors.InvalidRequest) as refusal:
        requested_fallbacks({"fallbacks": given})
    assert refusal.value.param == param


def test_every_model_is_named_for_the_permissions():
    given = ["b", {"model": "c"}, {"tiny": [{"model": "b"}], "model": "d"}]
    for entries, named in ((given, "bcd"), ([{"*": given[:2]}, {"tiny": ["e"]}], "bce")):
        requested = requested_fallbacks({"fallbacks": entries})
        assert [fallback.model for fallback in all_of(requested or ())] == [*named]


@pytest.mark.parametrize(
    ("of_key", "error", "expected"),
    [
        ({"fallbacks": [{"tiny": ["c"]}]}, FAILED, "c"),
        ({"context_window_fallbacks": [{"tiny": ["c"]}]}, TOO_LONG, "c"),
        ({"context_window_fallbacks": [{"tiny": ["c"]}]}, FAILED, "b"),
        ({"fallbacks": []}, FAILED, "b"),
    ],
)
async def test_settings_of_a_key_replace_those_of_the_router(monkeypatch, of_key, error, expected):
    used(monkeypatch, fallbacks=[{"tiny": ["b"]}])
    fallbacks = at()
    fallbacks.of_key = of_key
    await fallbacks.go_on(error, anyone)
    assert fallbacks.current == Fallback(expected)


# --- retries of a model ---------------------------------------------------------------------------

POLICY = {
    "TimeoutErrorRetries": 1,
    "ServiceUnavailableErrorRetries": 2,
    "InternalServerErrorRetries": 3,
    "BadRequestErrorRetries": 4,
}
RETRIES = [
    (errors.BackendTimeout("No."), 1),
    (errors.BackendUnavailable("No."), 2),
    (errors.EnforcementFailed("No."), 3),
    (errors.BackendFailed("No."), 0),
    (errors.InvalidRequest("No."), 0),
]
OF_MODELS = ({"retry_policy": POLICY}, {"model_group_retry_policy": {"tiny": POLICY}})
WITHOUT = ({}, {"model_group_retry_policy": {"other": POLICY}}, {"num_retries": 3})


@pytest.mark.parametrize(
    ("settings", "error", "retries"),
    [
        *((settings, *each) for settings in OF_MODELS for each in RETRIES),
        *((settings, errors.BackendTimeout("No."), 0) for settings in WITHOUT),
    ],
)
async def test_policy_allows_retries_by_the_class_of_the_error(
    monkeypatch, settings, error, retries
):
    """A request that is invalid is not repeated. Without a policy none is: a request has moved to
    the other backends of its model."""
    use(monkeypatch, row("a"), **settings)
    fallbacks, found = at(), 0
    while await fallbacks.retries(error):
        found += 1
    assert found == retries
