"""What `toolgate serve` prints when requests are accepted. The master key is not part of it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from rich.console import Console

from .stack import Stack

KEY_VARIABLE = "TOOLGATE_MASTER_KEY"


def announce(stack: Stack, console: Console) -> None:
    """Prints the URLs, the model, where the key is, and a request to paste into a shell."""
    file = stack.key_file
    where = f"in {file}" if file else f"the value of {KEY_VARIABLE}"
    for name, value in (
        ("base URL", f"{stack.url}/v1"),
        ("model", stack.model),
        ("page", f"{stack.url}/"),
        ("API key", where),
    ):
        console.print(f"{name + ':':<10}{value}", markup=False, soft_wrap=True)
    console.print(curl(stack.url, stack.model, file), markup=False, soft_wrap=True)
    print(f"TOOLGATE READY {stack.url}", flush=True)


def curl(url: str, model: str, key_file: Path | None) -> str:
    """A shell command that sends a chat completion."""
    key = f"$(cat {shlex.quote(str(key_file))})" if key_file else f"${KEY_VARIABLE}"
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
    return (
        f'curl {url}/v1/chat/completions -H "Authorization: Bearer {key}" '
        f"-H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}"
    )
