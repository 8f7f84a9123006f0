"""`x-session-id`, by which a router keeps a conversation at one replica."""

from typing import Any

from tests.proxy.server.kit import APIS, ask, goes_on
from tests.support.litellm.own_route import Gateway
from tests.support.servers.virtual_keys import key_of

USER: dict[str, Any] = {"role": "user", "content": "What is in the sesame jar?"}
OTHER: dict[str, Any] = {"role": "user", "content": "And in the other one?"}
SECRET = "sk-" + "7" * 24


def session(gateway: Gateway) -> str:
    return gateway.backend.headers[-1]["x-session-id"]


async def opened(gateway: Gateway, api: str, first: Any = USER, **params: Any) -> str:
    reply = await ask(gateway, api, "Seeds.", history=[first], **params)
    assert reply.status == 200, reply.response.bodies
    return session(gateway)


@APIS
async def test_the_turns_of_a_conversation_have_one_session_of_its_owner(gateway, api):
    gateway.backend.headers.clear()
    reply = await ask(gateway, api, "Seeds.", history=[USER], stream=True)
    first = session(gateway)
    await goes_on(gateway, reply, [USER])
    assert session(gateway) == first
    assert await opened(gateway, api, temperature=0.5) == first
    assert await opened(gateway, api, OTHER) != first
    gateway.add_key(SECRET, key_of(SECRET))
    other = await opened(gateway, api, key=SECRET)
    assert other not in ("", first)
    assert await opened(gateway, api, key=SECRET) == other
    for sent in gateway.backend.headers:
        assert len(sent["x-session-id"]) == 16
        int(sent["x-session-id"], 16)


async def test_a_stored_conversation_has_the_session_of_its_begin(gateway):
    reply = await ask(gateway, "responses", "Seeds.", history=[USER])
    first, previous = session(gateway), reply.body["id"]
    again = await ask(gateway, "responses", "Nuts.", history=[OTHER], previous_response_id=previous)
    assert again.status == 200
    assert session(gateway) == first
