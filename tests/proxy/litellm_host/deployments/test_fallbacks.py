"""The models to which a request falls back, compared with those of LiteLLM's router."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import litellm
import pytest

from tests.support.litellm.router import Row, row, use
from toolgate_core.errors import (
    BackendFailed,
    ContextLengthExceeded,
    InternalFault,
    InvalidRequest,
    RateLimited,
    ResponsesUnavailable,
    RetiredKey,
    ToolgateError,
    UnsupportedParameter,
)
from toolgate_proxy.litellm_host.deployments.fallbacks import (
    MAX_NAME,
    MAX_REQUESTED,
    Fallback,
    Fallbacks,
    all_of,
    requested_fallbacks,
)

MODELS = ("tiny", "b", "c", "d", "e", "f", "g", "h")
FAILED = BackendFailed("It broke.")
TOO_LONG = ContextLengthExceeded("It is too long.")
CHAIN = [{model: [after]} for model, after in pairwise(MODELS)]

CONFIGURED: dict[str, Row] = {
    "none": {},
    "a list": {"fallbacks": [{"tiny": ["b", "c"]}]},
    "of another model": {"fallbacks": [{"b": ["c"]}]},
    "of all models": {"fallbacks": [{"*": ["b", "c"]}]},
    "default": {"default_fallbacks": ["b", "c"]},
    "own before those of all": {"fallbacks": [{"*": ["b"]}, {"tiny": ["c"]}]},
    "a chain": {"fallbacks": CHAIN[:2]},
    "a chain before the rest of the list": {"fallbacks": [{"tiny": ["b", "d"]}, {"b": ["c"]}]},
    "a circle": {"fallbacks": [{"tiny": ["b"]}, {"b": ["tiny", "c"]}]},
    "a long chain": {"fallbacks": CHAIN},
    "a short limit": {"fallbacks": CHAIN, "max_fallbacks": 2},
    "a list longer than the limit": {"fallbacks": [{"tiny": [*"bcd"]}], "max_fallbacks": 2},
    "twice the same": {"fallbacks": [{"tiny": ["b", "b", "tiny", "c"]}]},
    "parameters": {"fallbacks": [{"tiny": [{"model": "b", "temperature": 0.5}, "c"]}]},
    "for context": {
        "fallbacks": [{"tiny": ["b"]}],
        "context_window_fallbacks": [{"tiny": ["c"]}],
    },
    "for context of another": {
        "fallbacks": [{"tiny": ["b"]}],
        "context_window_fallbacks": [{"b": ["c"]}],
    },
}


async def anyone(model: str) -> bool:
    return True


async def tried(
    error: ToolgateError, requested: list[Any] | None = None, model: str = "tiny"
) -> list[str]:
    """The models that are tried one after the other if all fail with `error`."""
    own = requested_fallbacks({"fallbacks": requested})
    fallbacks, first, found = Fallbacks(own), model, [model]
    while True:
        fallbacks.note_failure(model, error)
        fallback = await fallbacks.next(anyone)
        if fallback is None:
            assert fallbacks.attempted == len(found) - 1
            assert (fallbacks.first_model, fallbacks.first_error) == (first, error)
            return found
        model = fallback.model
        found.append(model)


async def tried_by_litellm(
    monkeypatch: pytest.MonkeyPatch,
    router: Any,
    error: ToolgateError,
    model: str = "tiny",
    **params: Any,
) -> list[str]:
    kind: Any = litellm.InternalServerError
    if error is TOO_LONG:
        kind = litellm.ContextWindowExceededError
    found: list[str] = []

    async def fail(**arguments: Any) -> None:
        found.append(arguments["api_base"].removeprefix("http://"))
        raise kind("No.", llm_provider="toolgate", model="tiny")

    monkeypatch.setattr(litellm, "acompletion", fail)
    with pytest.raises(kind):
        await router.acompletion(model, messages=[{"role": "user", "content": "hi"}], **params)
    return found


def used(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Any:
    return use(monkeypatch, *(row(model, group=model) for model in MODELS), **settings)


@pytest.mark.parametrize("error", [FAILED, TOO_LONG], ids=["failed", "too long"])
@pytest.mark.parametrize("settings", CONFIGURED.values(), ids=CONFIGURED)
async def test_models_are_tried_in_the_order_of_litellms_router(
    monkeypatch: pytest.MonkeyPatch, settings: Row, error: ToolgateError
) -> None:
    router = used(monkeypatch, **settings)
    expected = await tried_by_litellm(monkeypatch, router, error)
    assert await tried(error) == expected


@pytest.mark.parametrize(
    "requested",
    [["c", "b"], [{"model": "c"}, {"model": "b"}], [{"tiny": ["c"]}], [{"b": ["c"]}], [], ["tiny"]],
    ids=str,
)
async def test_fallbacks_of_a_request_replace_those_of_the_configuration(
    monkeypatch: pytest.MonkeyPatch, requested: list[Any]
) -> None:
    router = used(monkeypatch, fallbacks=[{"tiny": ["d"]}, {"c": ["e"]}])
    for error in (FAILED, TOO_LONG):
        expected = await tried_by_litellm(monkeypatch, router, error, fallbacks=requested)
        assert await tried(error, requested) == expected


async def test_objects_beside_names_are_fallbacks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteLLM would leave them out."""
    used(monkeypatch)
    assert await tried(FAILED, [{"model": "c"}, "b"]) == ["tiny", "c", "b"]


async def test_a_fallback_may_replace_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    used(monkeypatch, fallbacks=[{"tiny": [{"model": "b", "temperature": 0.5}]}])
    fallbacks = Fallbacks()
    fallbacks.note_failure("tiny", FAILED)
    assert await fallbacks.next(anyone) == Fallback("b", {"temperature": 0.5})


async def test_models_that_the_key_may_not_use_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used(monkeypatch, fallbacks=[{"tiny": ["b", "c"]}])

    async def only_c(model: str) -> bool:
        return model == "c"

    fallbacks = Fallbacks()
    fallbacks.note_failure("tiny", FAILED)
    found = await fallbacks.next(only_c)
    assert found is not None
    assert (found.model, fallbacks.attempted) == ("c", 1)


@pytest.mark.parametrize(
    "error",
    [InvalidRequest("No."), UnsupportedParameter("No."), InternalFault("No."),
     ResponsesUnavailable("No.")],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
async def test_no_model_is_tried_after_an_error_of_the_request_or_of_the_gateway(
    monkeypatch: pytest.MonkeyPatch, error: ToolgateError
) -> None:
    used(monkeypatch, fallbacks=[{"tiny": ["b"]}])
    assert await tried(error) == ["tiny"]


@pytest.mark.parametrize("error", [RetiredKey("No."), RateLimited("No.", retry_after=1)], ids=str)
async def test_errors_of_the_key_end_the_request(
    monkeypatch: pytest.MonkeyPatch, error: ToolgateError
) -> None:
    used(monkeypatch, fallbacks=[{"tiny": ["b", "c"]}])
    fallbacks = Fallbacks()
    fallbacks.note_failure("tiny", FAILED)
    with pytest.raises(type(error)):
        fallbacks.note_failure("b", error)


async def test_an_invalid_request_at_one_fallback_does_not_end_the_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used(monkeypatch, fallbacks=[{"tiny": ["b", "c"]}])
    fallbacks = Fallbacks()
    fallbacks.note_failure("tiny", FAILED)
    assert await fallbacks.next(anyone) == Fallback("b")
    fallbacks.note_failure("b", InvalidRequest("No."))
    assert await fallbacks.next(anyone) == Fallback("c")
    assert fallbacks.first_error is FAILED


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
def test_invalid_fallbacks_of_a_request_are_refused(given: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        requested_fallbacks({"fallbacks": given})
    assert refusal.value.param == param


def test_every_model_is_named_for_the_permissions() -> None:
    given = ["b", {"model": "c"}, {"tiny": [{"model": "b"}], "model": "d"}]
    for entries, named in ((given, "bcd"), ([{"*": given[:2]}, {"tiny": ["e"]}], "bce")):
        requested = requested_fallbacks({"fallbacks": entries})
        assert [fallback.model for fallback in all_of(requested or ())] == [*named]


@pytest.mark.parametrize("name", ["nick", "tiny"])
async def test_alias_has_its_own_fallbacks(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """As in LiteLLM, which does not fall back by the model that an alias stands for."""
    aliases = {"nick": "tiny"}
    router = used(monkeypatch, model_group_alias=aliases, fallbacks=[{name: ["b"]}])
    expected = await tried_by_litellm(monkeypatch, router, FAILED, model="nick")
    assert expected == (["tiny", "b"] if name == "nick" else ["tiny"])
    assert len(await tried(FAILED, model="nick")) == len(expected)


@pytest.mark.parametrize(
    ("of_key", "error", "expected"),
    [
        ({"fallbacks": [{"tiny": ["c"]}]}, FAILED, "c"),
        ({"context_window_fallbacks": [{"tiny": ["c"]}]}, TOO_LONG, "c"),
        ({"context_window_fallbacks": [{"tiny": ["c"]}]}, FAILED, "b"),
        ({"fallbacks": []}, FAILED, "b"),
    ],
)
async def test_settings_of_a_key_replace_those_of_the_router(
    monkeypatch: pytest.MonkeyPatch, of_key: Row, error: ToolgateError, expected: str
) -> None:
    use(monkeypatch, *(row(name, group=name) for name in MODELS), fallbacks=[{"tiny": ["b"]}])
    fallbacks = Fallbacks(of_key=of_key)
    fallbacks.note_failure("tiny", error)
    assert await fallbacks.next(anyone) == Fallback(expected)
