"""API surfaces: their paths and those of LiteLLM, the routes that a virtual key opens, and what a
request gets before it is parsed (salts of prefix caches, a search for tools)."""

import pytest
from litellm.proxy import proxy_server
from litellm.proxy.anthropic_endpoints import endpoints

from toolgate_proxy.api.surface import is_streamed
from toolgate_proxy.api.surfaces import (
    COMPLETIONS,
    MESSAGES,
    RESPONSES,
    SURFACES,
    RequestReader,
    surface_of,
)
from toolgate_proxy.context import Notes
from toolgate_proxy.keys.access import may_open
from toolgate_proxy.sealing import Sealer
from toolgate_proxy.settings import Settings

from .kit import HI, function, rows


@pytest.mark.parametrize(("path", "model"), rows("tables")["model in path"])
def test_a_path_may_name_the_model(path, model):
    found = COMPLETIONS.path.fullmatch(path)
    assert found is not None
    assert (found["model"] or "") == model


@pytest.mark.parametrize("path", rows("tables")["other paths"])
def test_other_paths_have_no_surface(path):
    assert not any(surface.path.fullmatch(path) for surface in SURFACES)


@pytest.mark.parametrize(
    ("surface", "end", "begins", "least"),
    [
        (COMPLETIONS, "/chat/completions", ("/v1/", "/chat", "/engines", "/openai"), 4),
        (RESPONSES, "/responses", ("/",), 3),
        (MESSAGES, "/messages", ("/v1/messages",), 1),
    ],
    ids=["chat", "responses", "messages"],
)
def test_all_paths_of_litellm_have_a_surface(surface, end, begins, least):
    """Otherwise requests at a path would go LiteLLM's way, without a word about it."""
    paths = {
        route.path.replace("{model:path}", "tiny").replace("{model}", "tiny")
        for route in [*proxy_server.app.routes, *endpoints.router.routes]
        if route.path.endswith(end) and "POST" in (getattr(route, "methods", None) or ())
    }
    own = {path for path in paths if path.startswith(begins)}
    assert len(own) >= least
    assert all(surface.path.fullmatch(path) for path in own), own


@pytest.mark.parametrize(("path", "headers", "name"), rows("tables")["errors"])
def test_errors_have_the_form_of_the_path(path, headers, name):
    surface = surface_of(path, headers)
    assert (surface and surface.name) == name


def test_surfaces_have_names_and_call_types_of_litellm():
    assert len({surface.name for surface in SURFACES}) == len(SURFACES)
    kinds = {surface.call_type for surface in SURFACES}
    assert kinds == {"acompletion", "anthropic_messages", "aresponses"}


@pytest.mark.parametrize(
    ("body", "streamed"),
    [({"stream": True}, True), ({"stream": False}, False), ({}, False), ({"stream": "yes"}, False)],
)
def test_only_stream_true_asks_for_a_stream(body, streamed):
    assert is_streamed(body) is streamed


@pytest.mark.parametrize(("path", "opens"), rows("tables")["keys"])
def test_a_virtual_key_opens_the_routes_to_models_alone(path, opens):
    for method in ("GET", "POST", "DELETE"):
        assert may_open(method, path) is (method == opens), method


OWN, SAME, OTHER = (
    RequestReader(Settings(prefix_cache="owner"), Sealer(secret))
    for secret in (b"s" * 32, b"s" * 32, b"t" * 32)
)
SHARED = RequestReader(Settings(prefix_cache="shared"), Sealer(b"s" * 32))


def salt(reader, owner, sent=None):
    body = {"messages": HI, "cache_salt": sent}
    request, _ = reader.read(COMPLETIONS, body, Notes(), model="tiny", owner=owner)
    return request.cache_salt


def test_salts_are_the_same_at_all_gateways_with_one_secret():
    assert salt(OWN, "team a") == salt(SAME, "team a") != salt(OTHER, "team a")


def test_owners_and_their_own_salts_have_different_salts():
    made = {salt(OWN, owner, sent) for owner in ("team a", "team b") for sent in (None, "x", "y")}
    assert len(made) == 6
    assert not any("team" in str(each) for each in made)


@pytest.mark.parametrize("sent", [None, "pepper"])
def test_shared_caches_have_the_salts_of_clients(sent):
    assert salt(SHARED, "team a", sent) == sent


def test_a_search_takes_the_place_of_the_tools_that_are_not_listed():
    reader = RequestReader(Settings(tool_search=1), Sealer(b"s" * 32))
    body = {"tools": [function("chat", name) for name in ("a", "b", "c")]}
    sent = reader.searching(COMPLETIONS, body)["tools"]
    assert [tool.get("defer_loading") for tool in sent] == [None, True, True, None]
    assert reader.searching(RESPONSES, body) == body
