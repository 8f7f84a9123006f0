"""Start-up probe of LiteLLM: are all private names that the gateway uses present?"""

from __future__ import annotations

from importlib.metadata import version

from toolgate_core.host_probe import find_problems, incompatibility_message

from .private_names import PRIVATE_NAMES

TESTED = ">=1.105.7,<1.111"
"""LiteLLM releases of docs/guide/upgrading.md."""


class LiteLLMChanged(Exception):
    """The message contains LiteLLM's version, the missing names, and the versions that work."""


def check_private_names() -> None:
    """Raises LiteLLMChanged."""
    problems = [*find_problems(PRIVATE_NAMES)]
    if problems:
        requirement = f"litellm[proxy]{TESTED}"
        raise LiteLLMChanged(
            incompatibility_message("LiteLLM", version("litellm"), problems, requirement)
        )
