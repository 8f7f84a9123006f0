"""`toolgate serve MODEL`: runs the stack in the foreground, and prints how it is used."""

from __future__ import annotations

import json
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rich.console import Console

from .stack.processes import StackFailed
from .stack.stack import Stack, StackOptions, print_failure

KEY_VARIABLE = "TOOLGATE_MASTER_KEY"


def announce(stack: Stack, console: Console) -> None:
    """Print the URLs, the model, where the key is, and a request to paste into a shell."""
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
    """Return a shell command that sends a chat completion."""
    key = f"$(cat {shlex.quote(str(key_file))})" if key_file else f"${KEY_VARIABLE}"
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
    return (
        f'curl {url}/v1/chat/completions -H "Authorization: Bearer {key}" '
        f"-H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}"
    )


def serve(options: StackOptions) -> int:
    """Return the exit status: 0 after Ctrl-C or SIGTERM, 1 if a part of the stack failed."""

    def until_stopped(stack: Stack, console: Console) -> int:
        announce(stack, console)
        stack.watch()

    return run(options, until_stopped)


def run(options: StackOptions, inside: Callable[[Stack, Console], int]) -> int:
    """Call `inside` when the stack is ready, and return its result as the exit status. The stack
    stops when `inside` returns."""
    console = Console(highlight=False)
    # A shell starts background jobs with SIGINT ignored. SIGHUP: the terminal was closed.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        with Stack(options, console) as stack:
            return inside(stack, console)
    except KeyboardInterrupt:
        return 0
    except StackFailed as error:
        print_failure(error, console)
        return 1


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
