"""Skips tests where something is not installed: vLLM (`make compat`), or a data set."""

from importlib.util import find_spec

import pytest

from .shared_data import path_of

needs_vllm = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")


def needs(data):
    """Skip a test without a data set of shared_data.py."""
    reason = f"{data} is neither in $TOOLGATE_SHARED nor fetched by scripts.public_data"
    return pytest.mark.skipif(not path_of(data).exists(), reason=reason)
