"""Skips tests of the complete installation where only the gateway is installed (`make compat`)."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

needs_vllm = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")
