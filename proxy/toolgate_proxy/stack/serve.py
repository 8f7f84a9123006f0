"""`toolgate serve MODEL`: runs the stack in the foreground until Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from rich.console import Console

from .announcement import announce
from .processes import StackFailed
from .stack import Stack, StackOptions, print_failure


def serve(options: StackOptions) -> int:
    """Returns the exit status: 0 after Ctrl-C or SIGTERM, 1 if a part of the stack failed."""

    def until_stopped(stack: Stack, console: Console) -> int:
        announce(stack, console)
        stack.watch()

    return run(options, until_stopped)


def run(options: StackOptions, inside: Callable[[Stack, Console], int]) -> int:
    """Calls `inside` when the stack is ready, and returns its result as the exit status. The stack
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
