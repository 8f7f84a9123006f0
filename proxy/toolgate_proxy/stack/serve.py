"""`toolgate serve MODEL`: the stack in the foreground until Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from rich.console import Console
from rich.markup import escape

from .processes import StackFailed
from .stack import Stack, StackOptions


def serve(options: StackOptions) -> int:
    """Exit status: 0 after Ctrl-C or SIGTERM, 1 when a part of the stack failed."""

    def until_stopped(stack: Stack, console: Console) -> int:
        announce(stack, console)
        stack.watch()

    return run(options, until_stopped)


def run(options: StackOptions, inside: Callable[[Stack, Console], int]) -> int:
    """Runs `inside` while the stack answers requests; its result is the exit status."""
    console = Console(highlight=False)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background job ignores SIGINT
        signal.signal(number, _interrupt)
    console.print(f"logs: {options.log_directory}")
    try:
        with Stack(options, console) as stack:
            return inside(stack, console)
    except KeyboardInterrupt:
        return 0
    except StackFailed as error:
        console.print(f"[red]✗[/] {escape(str(error))}")
        return 1


def announce(stack: Stack, console: Console) -> None:
    """How to call it. The key is shown once, and only when it was made here."""
    if stack.key_was_made:
        console.print(f"TOOLGATE_MASTER_KEY={stack.master_key}")
    console.print(f"model: {stack.model}")
    print(f"TOOLGATE READY {stack.url}", flush=True)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
