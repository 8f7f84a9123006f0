"""LiteLLM's side of authentication, its database, fields and operations, and its private names."""

import inspect
import json
import os
from importlib.metadata import version
from types import SimpleNamespace
from typing import Annotated, get_args
from unittest.mock import MagicMock

import httpx
import litellm
import pytest
import yaml
from fastapi import Depends, FastAPI
from litellm.proxy import litellm_pre_call_utils, proxy_server
from litellm.proxy._types import LitellmUserRoles, ProxyException, UserAPIKeyAuth
from litellm.proxy.auth.user_api_key_auth import user_api_key_auth
from litellm.proxy.common_utils.http_parsing_utils import _read_request_body
from litellm.proxy.db.prisma_client import PrismaManager
from litellm.types.utils import (
    CallTypes,
    CallTypesLiteral,
    StandardCallbackDynamicParams,
    all_litellm_params,
)
from packaging.specifiers import SpecifierSet
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from typer.testing import CliRunner

from tests.proxy.kit import beside
from tests.support.litellm import prisma_stand_in
from tests.support.litellm.router import foreign, row, use
from tests.support.servers.virtual_keys import key_of
from toolgate_core.errors import PermissionDenied
from toolgate_core.host_probe import PrivateName
from toolgate_proxy import auth
from toolgate_proxy.api.shared.parameter import LITELLM, TABLES
from toolgate_proxy.context import route_path
from toolgate_proxy.keys.access import KEY_HEADERS
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.litellm_host import auth as host
from toolgate_proxy.litellm_host import private_names
from toolgate_proxy.litellm_host.app import insert_own_route
from toolgate_proxy.litellm_host.control_fields import (
    CLIENTS,
    FURTHER,
    OPENAI_FIELDS,
    is_banned,
    is_control,
    is_own,
)
from toolgate_proxy.litellm_host.litellm_route.refused import UNSUPPORTED, check_operation
from toolgate_proxy.litellm_host.private_names import (
    PRIVATE_NAMES,
    LiteLLMChanged,
    check_private_names,
)
from toolgate_proxy.litellm_host.routing.router import PRICES
from toolgate_proxy.ops.cli import app
from toolgate_proxy.server import launcher
from toolgate_proxy.server.body_guard import NESTED

CASES = beside(__file__)

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}


def request_with(*headers, path="/v1/models", method="GET"):
    scope = {
        "type": "http", "method": method, "path": path, "root_path": "", "query_string": b"",
        "headers": list(headers), "server": ("x", 80), "scheme": "http", "client": ("10.0.0.1", 1),
    }  # fmt: skip
    return Request(scope)


def chat_with(*headers):
    return request_with(*headers, path="/v1/chat/completions", method="POST")


async def test_only_the_exact_master_key_is_that_of_litellms_administrator(monkeypatch):
    monkeypatch.setattr(proxy_server, "master_key", "sk-master")
    assert host.is_master_key("sk-master")
    for wrong in ("", "sk-maste", "sk-master ", "SK-MASTER", "sk-mastér", "\ud800"):
        assert not host.is_master_key(wrong)
    monkeypatch.setattr(proxy_server, "master_key", None)
    assert not host.is_master_key("")
    assert not host.is_master_key("None")
    monkeypatch.setattr(proxy_server, "master_key", "sk-master")
    monkeypatch.setattr(proxy_server, "user_custom_auth", None)
    made = host.caller(None)
    assert made.user_role == LitellmUserRoles.PROXY_ADMIN
    assert made.api_key == "litellm_proxy_master_key"
    theirs = await host.litellm_caller(chat_with((b"authorization", b"Bearer sk-master")), CHAT)
    for field in ("user_role", "user_id", "api_key"):
        assert getattr(theirs, field) == getattr(made, field)
    assert host.caller(None, "/x").request_route == "/x"
    assert host.caller(None).user_role == LitellmUserRoles.PROXY_ADMIN


def test_caller_has_the_alias_models_team_and_tags_of_its_key():
    key = key_of(new_key(), alias="web", models=("tiny", "big"), team="t", tags=("a",))
    made = host.caller(key, "/v1/chat/completions")
    assert (made.api_key, made.key_alias, made.models) == (key.id, "web", ["tiny", "big"])
    assert made.user_role == LitellmUserRoles.INTERNAL_USER
    assert made.metadata == {"team": "t", "tags": ["a"]}
    assert made.request_route == "/v1/chat/completions"


def test_all_of_litellms_key_headers_are_listed():
    """With another header, a request could have two keys."""
    found = {}
    for name, parameter in inspect.signature(user_api_key_auth).parameters.items():
        scheme = getattr(parameter.default, "dependency", parameter.default)  # fastapi.Security
        if hasattr(scheme, "model"):
            found[name] = scheme.model.name.lower()
    assert found == host.KEY_HEADERS
    assert {header.encode() for header in found.values()} == {*KEY_HEADERS}


@pytest.mark.parametrize("header", [None, *sorted(set(host.KEY_HEADERS.values()))])
async def test_other_custom_auth_gets_the_key_and_body_that_litellm_passes(monkeypatch, header):
    seen = []

    async def custom_auth(request, api_key: str):
        seen.append((api_key, await _read_request_body(request)))
        return UserAPIKeyAuth(api_key=api_key, user_id="theirs")

    app = FastAPI()

    @app.post("/v1/chat/completions")
    async def handler(caller: Annotated[UserAPIKeyAuth, Depends(user_api_key_auth)]):
        return caller.user_id

    monkeypatch.setattr(proxy_server, "user_custom_auth", custom_auth)
    monkeypatch.setattr(proxy_server, "master_key", "sk-master")
    sent = "Bearer sk-1" if header == "authorization" else "sk-1"
    headers = {} if header is None else {header: sent}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as http:
        answer = await http.post("/v1/chat/completions", json=CHAT, headers=headers)
        assert answer.json() == "theirs"
    ours = chat_with(*((name.encode(), value.encode()) for name, value in headers.items()))
    assert (await host.litellm_caller(ours, CHAT)).user_id == "theirs"
    by_litellm, by_us = seen
    assert by_us == by_litellm
    if header is not None:
        assert "sk-1" in by_us[0]


async def test_our_custom_auth_reads_the_key_from_the_headers(monkeypatch):
    """LiteLLM parses some of them differently; all of our checks must use the same key. Without
    such a header it uses the key that LiteLLM read."""
    monkeypatch.setattr(proxy_server, "master_key", "sk-master")
    for headers, read in (
        ([(b"authorization", b"BEARER   sk-master")], "sk-other"),
        ([(b"x-api-key", b"bearer sk-master")], "sk-other"),
        ([], "sk-master"),
    ):
        caller = await host.authenticate(request_with(*headers), read)
        assert caller.user_role == LitellmUserRoles.PROXY_ADMIN
    with pytest.raises(ProxyException):
        await host.authenticate(request_with((b"authorization", b"Bearer sk-wrong")), "sk-master")
    assert route_path(request_with((b"host", b"x/key/list?y=")).scope) == "/v1/models"


def test_our_custom_auth_is_recognised_and_both_checks_of_models_must_be_on(monkeypatch):
    for settings, used, ours in (
        ({}, auth.authenticate, True),
        ({"litellm_key_header_name": "x-key"}, auth.authenticate, False),
        ({}, None, False),
    ):
        monkeypatch.setattr(proxy_server, "general_settings", settings)
        monkeypatch.setattr(proxy_server, "user_custom_auth", used)
        assert host.is_ours() is ours
    for general in ({}, {"custom_auth_run_common_checks": True}):
        for post in (False, True):
            monkeypatch.setattr(proxy_server, "general_settings", general)
            monkeypatch.setattr(litellm, "enable_post_custom_auth_checks", post, raising=False)
            assert host.checks_models() == (bool(general) and post)


@pytest.mark.parametrize(
    ("allowed", "named", "permitted"),
    CASES["models"],
)  # fmt: skip
async def test_key_allows_models_by_name_wildcard_or_access_group(
    monkeypatch, allowed, named, permitted
):
    """As LiteLLM's own check does: an alias is another name of its model."""
    use(
        monkeypatch,
        *(row(name, group=name) for name in ("small", "large", "team/large")),
        row("grouped", group="grouped", info={"access_groups": ["a-group"]}),
        model_group_alias={"nick": "small"},
    )
    key = key_of(new_key(), models=tuple(allowed))
    if permitted:
        await host.check_model(host.caller(key), named)
        return
    with pytest.raises(PermissionDenied) as refusal:
        await host.check_model(host.caller(key), named)
    assert refusal.value.status == 403
    assert all(json.dumps(name)[1:-1] in refusal.value.message for name in allowed)


# --- fields that LiteLLM reads as settings of its own ---------------------------------------------

OF_CLIENTS = ("project", "session_id", "spend_logs_metadata", "tags", "trace_id", "user_id")
SETTINGS = CASES["settings"]
PARAMETERS = CASES["parameters"]


def test_litellms_settings_are_control_fields_and_parameters_of_the_apis_are_not():
    assert [name for name in SETTINGS if not (is_control(name) or name in NESTED)] == []
    assert [name for name in PARAMETERS if is_control(name)] == []
    assert [name for name in FURTHER if not is_control(name)] == []  # missing from LiteLLM's lists
    assert not {*FURTHER} & {*OPENAI_FIELDS}
    banned = [name for name in (*SETTINGS, *PARAMETERS) if is_banned(name)]
    assert {"api_base", "user_config"} <= {*banned}
    assert not {"fallbacks", "metadata", "model"} & {*banned}


def test_every_argument_of_litellm_is_a_parameter_or_is_refused():
    """A name that a release adds is listed here, or gets a row, once it is decided what it may do.
    Prices, and settings of callbacks, are the operator's."""
    operators = {*StandardCallbackDynamicParams.__annotations__, *PRICES}
    names = {each for each in all_litellm_params if not each.startswith("_")} - operators
    for api, table in TABLES.items():
        undecided = names - table.keys() - {*CASES["refused"]}
        assert not undecided, api
        assert not table.keys() & ({*CASES["refused"]} | operators), api
    assert {name for name in CLIENTS if is_control(name)} == set()
    assert {*LITELLM} >= CLIENTS


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
async def test_all_that_litellm_writes_into_metadata_is_its_own(path):
    """Its lists lack some. What a client may set as well is not."""
    caller = UserAPIKeyAuth(api_key="k", team_id="t", agent_id="a", budget_reservation={"x": 1})
    config = SimpleNamespace(load_team_config=lambda team_id: {}, config={})
    request = request_with(path=path, method="POST")
    made = await litellm_pre_call_utils.add_litellm_data_to_request(
        {"model": "tiny"}, request, caller, config, {}, "1"
    )
    written = made.get("litellm_metadata") or made["metadata"]
    assert [name for name in written if not is_own(name)] == ["agent_id"]
    assert [name for name in OF_CLIENTS if is_own(name)] == []


# --- operations that models of ours do not support ------------------------------------------------


async def test_operations_of_our_models_that_are_refused_have_litellms_names(monkeypatch):
    use(monkeypatch, row("a"), foreign("openai/x"), row("b", group="mixed"))
    for call_type in ("acompletion", "aresponses", "anthropic_messages"):
        check_operation("tiny", call_type)
    for model in ("openai/x", "unknown", None):
        check_operation(model, "aembedding")
    names = {each.value for each in CallTypes} | set(get_args(CallTypesLiteral))
    assert UNSUPPORTED.keys() - {"image_variation"} <= names | {"create_fine_tuning_job"}
    ours = {"model": "toolgate/tiny", "api_base": "http://127.0.0.1:1"}
    with pytest.raises(litellm.BadRequestError, match="do not support embeddings"):
        await litellm.aembedding(input="x", **ours)
    with pytest.raises(litellm.BadRequestError, match="do not support image generation"):
        await litellm.aimage_generation(prompt="x", **ours)


# --- LiteLLM's app --------------------------------------------------------------------------------


class LazyFeatureMiddleware: ...


class Gateway: ...


def test_own_route_runs_inside_cors_and_outside_path_matching():
    app = Starlette(middleware=[Middleware(LazyFeatureMiddleware), Middleware(CORSMiddleware)])
    insert_own_route(app, Gateway)
    order = [each.cls for each in app.user_middleware]
    assert order == [CORSMiddleware, Gateway, LazyFeatureMiddleware]
    assert app.user_middleware[0].kwargs == {"allow_private_network": True}
    from litellm.proxy.proxy_server import app

    names = {getattr(each.cls, "__name__", "") for each in app.user_middleware}
    assert {"LazyFeatureMiddleware", "PrometheusAuthMiddleware"} <= names


# --- the database at the start of the gateway -----------------------------------------------------

PROGRAM = '#!/bin/sh\necho "$PWD: $@: $DATABASE_URL" >> {log}\n{rest}\n'
FAIL = 'case "$*" in *deploy*) echo P1001 >&2; exit 1; esac'
URL = "postgresql://u:secret@127.0.0.1:9/litellm"


@pytest.mark.parametrize(
    ("program", "said"),
    [("", None), (FAIL, "Database migration cannot proceed"), (None, "pip install prisma==0.11.0")],
    ids=["migrated", "failed", "no-prisma"],
)
def test_the_tables_are_migrated_before_the_gateway_starts(tmp_path, monkeypatch, program, said):
    started = []
    url = "DATABASE_URL"
    monkeypatch.setattr("uvicorn.run", lambda *_, **more: started.append((os.environ[url], more)))
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("faulthandler.enable", lambda: None)
    monkeypatch.setattr("toolgate_proxy.server.logs.set_up", lambda **_: None)
    monkeypatch.setattr(PrismaManager, "build_request_log_indexes", lambda: True, raising=False)
    monkeypatch.setattr("psycopg.connect", lambda *_, **__: MagicMock())  # a lock for migrations
    for name in ("CONFIG_FILE_PATH", "WORKER_CONFIG", "NUM_WORKERS", "DATABASE_URL"):
        monkeypatch.setenv(name, "")  # what the start sets is restored
    monkeypatch.setenv("TOOLGATE_MASTER_KEY", "sk-0123456789abcdef")
    monkeypatch.setenv("URL", URL)
    if program is not None:
        prisma_stand_in.install(monkeypatch)
        (tmp_path / "prisma").write_text(PROGRAM.format(log=tmp_path / "log", rest=program))
        (tmp_path / "prisma").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    config = launcher.make_config([launcher.Route("m", "m")])
    pool = {"database_url": "os.environ/URL", "database_connection_pool_limit": 7}
    config["general_settings"] |= pool
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    result = CliRunner().invoke(app, ["proxy", "--config", str(path), "--port", "0"])
    assert bool(result.exit_code) is (said is not None), result.output
    assert (said or "") in result.output
    assert "secret" not in result.output
    assert len(started) == (said is None)
    if said is None:
        [migration] = [x for x in (tmp_path / "log").read_text().splitlines() if "deploy" in x]
        assert "litellm_proxy_extras: migrate deploy" in migration
        [(used, options)] = started
        assert migration.endswith(used)
        assert used.startswith(f"{URL}?connection_limit=7")
        # Imports on busy cores take longer than uvicorn waits by itself.
        assert options["timeout_worker_healthcheck"] >= 30


# --- the probe of private names at the start of the gateway ---------------------------------------


def test_private_names_are_probed(monkeypatch):
    check_private_names()
    assert version("litellm") in SpecifierSet(private_names.TESTED)
    assert len({each.target for each in PRIVATE_NAMES}) == len(PRIVATE_NAMES)
    names = tuple(PrivateName(f"json:{name}", "streams") for name in ("loads", "gone", "lost"))
    monkeypatch.setattr(private_names, "PRIVATE_NAMES", names)
    with pytest.raises(LiteLLMChanged) as raised:
        check_private_names()
    message = str(raised.value)
    assert message.startswith(f"LiteLLM {version('litellm')} is not compatible")
    assert "json.gone is missing (used for: streams)" in message
    assert "json.lost is missing (used for: streams)" in message
    assert "loads" not in message
    assert f"pip install 'litellm[proxy]{private_names.TESTED}'" in message
