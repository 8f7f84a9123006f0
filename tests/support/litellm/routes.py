"""Routes of chat completions through the gateway."""

from __future__ import annotations

import pytest

OWN_ROUTE_ONLY = pytest.mark.parametrize("route", ["own"], indirect=True, scope="session")
"""For tests of what is the same whether LiteLLM's handler or our own route answers."""
