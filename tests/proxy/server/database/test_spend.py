"""The cost of requests on the gateway's own route in LiteLLM's database."""

import asyncio
import json
import uuid

import litellm
import pytest
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy import proxy_server
from litellm.proxy.utils import hash_token

from tests.proxy.server.database.conftest import PRICES, THEIRS, ask_litellm, theirs
from tests.support.effort import rotating, sampled
from tests.support.litellm.own_route import PATHS, body_of, chat, ours
from tests.support.litellm.router import use
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.litellm_host import auth
from toolgate_proxy.litellm_host.callbacks.request_events import RequestEvents

STREAMED = [False, True]
NOTHING = pytest.approx(0.0, abs=1e-9)


def of_customer(api, customer):
    """What a request says of its end user."""
    if api == "messages":
        return {"metadata": {"user_id": customer}}
    return {"user": customer, "metadata": {"project": "x"}}


def cost(row):
    prompt = row.prompt_tokens * PRICES["input_cost_per_token"]
    return float(prompt + row.completion_tokens * PRICES["output_cost_per_token"])


async def counted(kind, name):
    """The spend by which LiteLLM checks the next request."""
    held, _ = await proxy_server.read_spend_counter_cache_value(f"spend:{kind}:{name}")
    return held


@sampled("api, stream", PATHS, STREAMED, one_in=2)
async def test_cost_is_written_for_key_team_user_and_customer(gateway, database, api, stream):
    gateway.backend.scripts["hi"] = Script(("Hello there",), cached_tokens=0)
    user = await database.user(max_budget=100.0)
    team = await database.team(max_budget=100.0, metadata='{"tags": ["of-the-team"]}')
    key = await database.key(
        team_id=team, user_id=user, key_alias="mine", max_budget=100.0, metadata='{"tags": ["a"]}'
    )
    customer = f"customer-{uuid.uuid4().hex}"
    body = body_of(api, stream=stream, **of_customer(api, customer))
    response = await gateway.ask(body, path=PATHS[api], key=key)
    assert response.status == 200
    row = await database.logged()
    assert (row.prompt_tokens, row.completion_tokens > 0, row.status) == (11, True, "success")
    assert row.spend == pytest.approx(cost(row))
    assert (row.api_key, row.team_id, row.user) == (hash_token(key), team, user)
    assert (row.end_user, row.model_group, row.model_id) == (customer, "tiny", "a")
    assert {*row.request_tags} >= {"a", "of-the-team"}
    assert row.metadata["user_api_key_alias"] == "mine"
    held = await database.row_of(key)
    for table, name in (
        (database.db.litellm_teamtable, {"team_id": team}),
        (database.db.litellm_usertable, {"user_id": user}),
        (database.db.litellm_endusertable, {"user_id": customer}),
    ):
        assert (await table.find_unique(name)).spend == pytest.approx(row.spend)
    assert held.spend == pytest.approx(row.spend)
    [daily] = await database.db.litellm_dailyuserspend.find_many(where={"user_id": user})
    assert (daily.user_id, daily.spend) == (user, pytest.approx(row.spend))
    assert await counted("key", hash_token(key)) == pytest.approx(row.spend)
    assert await counted("team", team) == pytest.approx(row.spend)


FORMS = {
    "metadata": lambda forged: {"metadata": forged},
    "litellm_metadata": lambda forged: {"litellm_metadata": forged},
    "both": lambda forged: {"metadata": forged, "litellm_metadata": forged},
    "nested": lambda forged: {"metadata": {"litellm_metadata": forged, "metadata": [forged]}},
    "text": lambda forged: {"metadata": json.dumps(forged)},
}


FORGED = (
    *("user_api_key_team_id", "model_group", "deployment", "model_info", "response_cost"),
    *("status", "applied_guardrails"),
)


class Recorder(CustomLogger):
    def __init__(self):
        super().__init__()
        self.events = []

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        self.events.append(kwargs)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("model", ["tiny", THEIRS])
async def test_a_client_can_not_say_who_pays_or_what_it_costs(
    gateway, database, monkeypatch, model, api, form
):
    """On our own route and on LiteLLM's. What else is in the metadata reaches log events."""
    if (model, form) in (("tiny", "text"), ("tiny", "nested")) and api != "chat":
        pytest.skip("metadata of this form is refused")
    gateway.backend.scripts["hi"] = Script(("Hello there",), cached_tokens=0)
    monkeypatch.setattr(litellm, "callbacks", [*litellm.callbacks, recorder := Recorder()])
    key, victim = [await database.key(max_budget=100.0) for _ in range(2)]
    forged = {
        **dict.fromkeys(("user_api_key", "user_api_key_hash"), hash_token(victim)),
        **dict.fromkeys(FORGED, "forged"),
        "project": "kept",
    }
    body = {**body_of(api, "hi", **FORMS[form](forged)), "model": model}
    if model == "tiny":
        assert (await gateway.ask(body, path=PATHS[api], key=key)).status == 200
    else:
        assert (await ask_litellm(PATHS[api], body, key)).status_code == 200
    row = await database.logged()
    assert (row.api_key, row.team_id or "", row.model_group) == (hash_token(key), "", model)
    assert (row.status, row.metadata["user_api_key"]) == ("success", hash_token(key))
    assert (await database.row_of(key)).spend == pytest.approx(row.spend)
    assert (await database.row_of(victim)).spend == 0.0
    await until(lambda: recorder.events)
    [event] = recorder.events
    sent = event["litellm_params"]
    logged = {**event["standard_logging_object"], "response": None}  # which repeats what was sent
    shown = [sent["metadata"], sent.get("litellm_metadata"), logged]
    assert "forged" not in repr(shown)
    assert "kept" in repr(shown) or form == "text"


@rotating("stream", STREAMED, one_in=2)
async def test_a_request_holds_its_reservation_until_its_cost_is_known(gateway, database, stream):
    """Otherwise the next request could use the budget a second time."""
    key = await database.key(max_budget=100.0)
    await gateway.ask(chat(stream=stream, max_tokens=50), key=key)
    [reserved] = database.reservations
    assert reserved["reserved_cost"] >= 50 * PRICES["output_cost_per_token"]
    assert (reserved["callback_bound"], reserved["finalized"]) == (True, False)
    row = await database.logged()
    assert await counted("key", hash_token(key)) == pytest.approx(row.spend)


@sampled("api, stream", PATHS, STREAMED, one_in=2)
async def test_a_failed_request_costs_nothing_and_is_logged(gateway, database, api, stream):
    gateway.backend.scripts["breaks"] = Script(("x",), error_after=0)
    key = await database.key(max_budget=100.0)
    await gateway.ask(body_of(api, "breaks", stream=stream), path=PATHS[api], key=key)
    [reserved] = database.reservations
    assert reserved["callback_bound"] or reserved["finalized"]  # or it would be released twice
    row = await database.logged()
    assert (row.status, row.spend, row.api_key) == ("failure", 0.0, hash_token(key))
    assert row.metadata["error_information"]["error_message"]
    assert (await database.row_of(key)).spend == 0.0
    assert await counted("key", hash_token(key)) == NOTHING


async def test_an_invalid_request_and_a_count_of_tokens_cost_nothing(gateway, database):
    key = await database.key(max_budget=100.0)
    path, said = "/v1/messages/count_tokens", [{"role": "user", "content": "hi"}]
    counted_tokens = await gateway.ask({"model": "tiny", "messages": said}, path=path, key=key)
    assert counted_tokens.status == 200
    await asyncio.sleep(0.05)
    assert not await counted("key", hash_token(key))
    assert (await gateway.ask(chat(temperature="hot"), key=key)).status == 400
    await database.settled(1)
    assert await counted("key", hash_token(key)) == NOTHING


@sampled("api, stream", PATHS, STREAMED, one_in=2)
async def test_a_response_that_its_client_left_costs_what_was_generated(
    gateway, database, api, stream
):
    gateway.backend.scripts["hang"] = Script(("Hello there",), cached_tokens=0, hang_after=2)
    key = await database.key(max_budget=100.0)
    body = body_of(api, "hang", stream=stream)
    await gateway.ask(body, path=PATHS[api], key=key, leave_after=1.0)
    row = await database.logged()
    assert (row.status, row.prompt_tokens, row.completion_tokens) == ("success", 11, 2)
    assert row.spend == pytest.approx(cost(row)) != 0.0
    assert (await database.row_of(key)).spend == pytest.approx(row.spend)
    assert await counted("key", hash_token(key)) == pytest.approx(row.spend)


@sampled("api, kept_alive", PATHS, [False, True], one_in=3)
async def test_a_stream_that_its_client_left_before_its_first_token_is_logged(
    gateway, database, api, kept_alive
):
    gateway.backend.scripts["hang"] = Script(("Hello there",), hang_after=0)
    if not kept_alive:
        gateway.configure(keepalive_seconds=0.0)
    key = await database.key(max_budget=100.0)
    body = body_of(api, "hang", stream=True)
    await gateway.ask(body, path=PATHS[api], key=key, leave_after=0.5)
    row = await database.logged()
    assert (row.status, row.spend, row.completion_tokens) == ("failure", 0.0, 0)
    assert row.metadata["error_information"]["error_code"] == "499"
    assert await counted("key", hash_token(key)) == NOTHING


def leaving_after(step, left):
    """Return a step of a request before whose end its client leaves."""

    async def leaving(*arguments):
        result = await step(*arguments)
        left.set()
        await asyncio.sleep(0.05)
        return result

    return leaving


@rotating("api", PATHS, one_in=3)
async def test_a_client_that_leaves_while_its_key_is_checked_reserves_nothing(
    gateway, database, monkeypatch, api
):
    """LiteLLM has reserved the cost before its authentication ends."""
    left = asyncio.Event()
    monkeypatch.setattr(auth, "litellm_caller", leaving_after(auth.litellm_caller, left))
    key = await database.key(max_budget=100.0)
    await gateway.ask(body_of(api), path=PATHS[api], key=key, leave_after=left)
    row = await database.logged()
    assert (row.status, row.spend) == ("failure", 0.0)
    [reserved] = database.reservations
    assert reserved["callback_bound"] or reserved["finalized"]
    assert await counted("key", hash_token(key)) == NOTHING
    assert gateway.backend.requests == []


async def test_a_client_that_leaves_while_hooks_run_holds_no_place(gateway, database, monkeypatch):
    """LiteLLM's limits are among the hooks."""
    left = asyncio.Event()
    key = await database.key(max_parallel_requests=1)
    with monkeypatch.context() as patched:
        patched.setattr(RequestEvents, "before", leaving_after(RequestEvents.before, left))
        await gateway.ask(chat(), key=key, leave_after=left)
    row = await database.logged()
    assert row.status == "failure"
    assert gateway.backend.requests == []
    assert (await gateway.ask(chat(), key=key)).status == 200


async def test_a_used_up_budget_ends_the_use_of_a_key(gateway, database):
    """LiteLLM's counter decides, before the database has the spend."""
    gateway.backend.scripts["hi"] = Script(("Hello there " * 20,))
    key = await database.key(max_budget=1.0)
    asked = chat(max_tokens=90)
    for answered in range(1, 10):
        response = await gateway.ask(asked, key=key)
        if response.status != 200:
            break
        await database.settled(answered)
    assert response.status == 422  # LiteLLM's
    assert "budget" in response.json["error"]["message"].lower()
    assert answered > 1


@pytest.mark.parametrize("place", ["params", "info", "nowhere"])
async def test_prices_of_cached_tokens_apply(gateway, database, monkeypatch, place):
    """Prices may be in `litellm_params` or in `model_info`. A model without any costs nothing."""
    prices = PRICES | {"cache_read_input_token_cost": 0.0001}
    given = {"params": prices, "info": {"info": prices}, "nowhere": {}}[place]
    use(monkeypatch, ours(gateway.backend, **given), theirs())
    await gateway.ask(chat(), key=await database.key(max_budget=1.0))
    logged = await database.logged()
    full = 8 * 0.001 + 3 * 0.0001 + logged.completion_tokens * 0.01
    assert logged.spend == (pytest.approx(full) if given else 0.0)
    assert logged.prompt_tokens == 11


async def test_toolgates_keys_work_beside_the_database(gateway, database, monkeypatch):
    """With our `custom_auth`, LiteLLM logs requests, and has no budgets for them."""
    monkeypatch.setattr(proxy_server, "user_custom_auth", auth.authenticate)
    sent = new_key()
    gateway.add_key(sent, key := key_of(sent))
    assert (await gateway.ask(chat(), key=sent)).status == 200
    row = await database.logged()
    assert row.spend > 0
    assert row.metadata["user_api_key_alias"] == key.alias
    assert database.reservations == []
