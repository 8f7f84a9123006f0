"""What earlier releases had, and what to use instead.

Whoever still sends, sets or calls one of these gets one answer that names it: a parameter or
path is refused, a setting is reported at start, and a command ends with status 2.
"""

from __future__ import annotations

CONVERSATIONS = "Conversations were removed. Continue a response by `previous_response_id`."

PARAMETERS = {
    "conversation": CONVERSATIONS,
    "toolgate.receipt": "Receipts were removed. `toolgate verify` tests what an endpoint enforces.",
}
"""By place in the body."""

PATHS = {"/conversations": CONVERSATIONS}
"""By the beginning of the path behind the version."""

SETTINGS = {"RECEIPT_KEY": "Receipts were removed, so no key is needed."}
"""By name, without the prefix TOOLGATE_."""

COMMANDS = {
    "chat": "The page of the gateway has a playground; `toolgate launch` starts agents.",
    "audit": "Receipts were removed. `toolgate verify URL` tests what an endpoint enforces.",
}
