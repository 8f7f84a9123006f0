"""What the programs share that use tools which the gateway runs: the names of the tools, and what
the scripted model says."""

import json
import os

SCRIPT = json.loads(os.environ["HOSTED_TOOLS"])
MCP, LOOKUP, RECORD = SCRIPT["mcp"], SCRIPT["lookup"], SCRIPT["record"]
"""The address of an MCP server, the name of its tool, and the tool's result."""
FOUND, LAST = SCRIPT["found"], SCRIPT["last"]
"""What the model says when it has called the tool, and to the question after that."""
QUERY, PAGE, CITED = SCRIPT["query"], SCRIPT["page"], SCRIPT["cited"]
"""What the model searches, the address that it finds, and what it says then."""
REASON = SCRIPT["reason"]
"""Why a call is not approved."""


def user(text):
    return {"role": "user", "content": text}
