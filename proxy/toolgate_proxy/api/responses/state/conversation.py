"""The conversation that a request continues, and the items that requests add to one."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from toolgate_core.errors import (
    InvalidRequest,
    RequestTooLarge,
    ResponsesUnavailable,
    ToolgateError,
)

from ....request_fields import invalid_value
from ....response_store.conversations import StoredConversation, too_large
from ....response_store.sealed_store import StoreUnavailable
from ....sealing import OwnerSeal
from ...shared.history import History
from ...shared.tools import HostedTools
from ...surface import Client
from ..approvals import Approvals
from ..items import parse_input
from ..tools import ToolReader
from .item_ids import with_ids

CONVERSATION = "conversation"
MAX_ITEMS = 10_000
"""Most items of a conversation, as many as `input` may have."""
MAX_ID = 256
CALL = re.compile(r"[a-z_]+_call|mcp_approval_request")
"""Types of items to which others may belong."""
PATH = re.compile(r"(?<![\w.])input(?=\[)")

Json = dict[str, Any]


def read_conversation(values: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the conversation that a request continues, as its response repeats it. Raise
    InvalidRequest."""
    given = values.get(CONVERSATION)
    if given is None:
        return None
    name = id_of(given)
    if name is None or not 0 < len(name) <= MAX_ID:
        expected = "the ID of a conversation, or an object with the `id`"
        raise invalid_value(CONVERSATION, expected, given)
    if values.get("previous_response_id") is not None:
        raise InvalidRequest(
            "'previous_response_id' and 'conversation' can't be combined. Remove one of them.",
            param=CONVERSATION,
        )
    return {"id": name}


def id_of(given: object) -> str | None:
    """Return the ID that the parameter `conversation` names; None if it is invalid."""
    name = given.get("id") if isinstance(given, dict) else given
    return name if isinstance(name, str) else None


async def items_of(conversation_id: str, client: Client) -> Sequence[Any]:
    """Return the items of a conversation. It is locked until the request ends, if the request adds
    a turn to it.

    Raise ConversationLocked, ConversationNotFound, RequestTooLarge and StoreUnavailable."""
    if client.turn is not None:
        return (await client.turn.open(conversation_id)).items
    assert client.responses is not None
    return (await client.responses.conversations.find(client.owner, conversation_id)).items


async def add_turn(items: Sequence[Json], client: Client) -> None:
    """Add the items of a response and of its input to the conversation that the request continues,
    if it continues one, and unlock it. Raise ToolgateError if that failed, so that no client goes
    on without them."""
    turn = client.turn
    if turn is None or turn.conversation is None:
        return
    try:
        await turn.change(items=joined(turn.conversation, items))
    except StoreUnavailable as error:
        raise ResponsesUnavailable(
            f"The response can't be added to its conversation, because {error}. Send the request "
            "again.",
            retry_after=1,
        ) from error
    await turn.end()


def new_items(given: object, conversation: StoredConversation, seal: OwnerSeal) -> list[Json]:
    """Return the items that a client adds, each with a type and an ID. Raise InvalidRequest and
    UnsupportedParameter for an item that could not be part of `input` after the earlier ones."""
    if not isinstance(given, list) or not given:
        raise invalid_value("items", "a non-empty array of items", given)
    if len(given) > MAX_ITEMS:
        raise RequestTooLarge(
            f"'items' has more than {MAX_ITEMS:,} items. Send fewer.", param="items"
        )
    calls = [item for item in conversation.items if CALL.fullmatch(item["type"])]
    reader = ToolReader(HostedTools(omit=True))
    try:
        parse_input(
            [*calls, *given],
            None,
            History(),
            reader.toolset(()),
            reader,
            Approvals(),
            recalled=len(calls),
            seal=seal,
        )
    except ToolgateError as error:
        param = None if error.param is None else PATH.sub("items", error.param)
        raise error.reworded(PATH.sub("items", error.message), param) from None
    return with_ids(given, secrets.token_hex(16))


def joined(conversation: StoredConversation, added: Sequence[Json]) -> list[Json]:
    """Return the items with further ones at the end. IDs are unique: a further item whose ID is
    taken, or no string, gets another one. Raise RequestTooLarge."""
    items, taken = [*conversation.items], {item["id"] for item in conversation.items}
    if len(items) + len(added) > MAX_ITEMS:
        raise too_large()
    for item in added:
        if not isinstance(item["id"], str) or item["id"] in taken:
            (item,) = with_ids([{**item, "id": None}], secrets.token_hex(16))
        taken.add(item["id"])
        items.append(item)
    return items
