"""A line that Claude Code puts into the system prompt, for Anthropic's accounting. It changes with
each request, so no prefix of the prompt could be cached, and it is no part of the prompt. Gateways
in front of this one join it with the texts around it."""

from __future__ import annotations

import re

BILLING = "x-anthropic-billing-header:"
LINE = re.compile(rf"^{re.escape(BILLING)}[^\n]*\n?", re.MULTILINE)


def without_billing(text: str) -> str:
    """Return a text without the lines that begin with the header, and without their line ends."""
    return LINE.sub("", text) if BILLING in text else text
