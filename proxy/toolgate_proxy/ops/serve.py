"""`toolgate serve MODEL`: runs the stack in the foreground, and prints how it is used."""

from __future__ import annotations

import json
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from . import CommandFailed, extras
from .cli import PASSED_ON, command, examples
from .gateway import PORT
from .stack.model import check_model

if TYPE_CHECKING:
    from rich.console import Console

    from .stack.stack import Stack, StackOptions

KEY_VARIABLE = "TOOLGATE_MASTER_KEY"


@command(
    context_settings=PASSED_ON,
    epilog=examples(
        "toolgate serve Qwen/Qwen3-8B",
        "toolgate serve ./models/mine --name mine --port 8080 --tensor-parallel-size 2",
    ),
)
def serve(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="Model directory or Hugging Face model id.")],
    port: Annotated[int, typer.Option(help="Port of the gateway.")] = PORT,
    host: Annotated[str, typer.Option(help="Address of the gateway.")] = "127.0.0.1",
    name: Annotated[str | None, typer.Option(help="Model name for clients.")] = None,
    backend_port: Annotated[
        int | None, typer.Option(help="Port of vLLM and its /metrics. Default: a free port.")
    ] = None,
) -> None:
    """Run a model, Redis and the gateway on this machine.

    They run until Ctrl-C. Further options are passed to vLLM. The master key is
    TOOLGATE_MASTER_KEY, or it is generated once and kept in the user's configuration folder."""
    check_model(model)
    extras.check("`toolgate serve`", "proxy", "backend")
    from .stack.stack import StackOptions

    raise typer.Exit(
        run(StackOptions(model, port, host, name, backend_port, context.args), until_stopped)
    )


def until_stopped(stack: Stack, console: Console) -> NoReturn:
    announce(stack, console)
    stack.watch()


def run(options: StackOptions, inside: Callable[[Stack, Console], int]) -> int:
    """Call `inside` when the stack is ready, and return its result as the exit status: 0 after
    Ctrl-C or SIGTERM, 1 if a part of the stack failed. The stack stops when `inside` returns."""
    from rich.console import Console

    from .stack import stack as stacks

    console = Console(highlight=False)
    # A shell starts background jobs with SIGINT ignored. SIGHUP: the terminal was closed.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        with stacks.Stack(options, console) as stack:
            return inside(stack, console)
    except KeyboardInterrupt:
        return 0
    except CommandFailed as error:
        stacks.print_failure(error, console)
        return 1


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def announce(stack: Stack, console: Console) -> None:
    """Print the URLs, the model, where the key is, and a request to paste into a shell."""
    file = stack.key_file
    where = f"in {file}" if file else f"the value of {KEY_VARIABLE}"
    lines = (f"base URL: {stack.url}/v1", f"model:    {stack.model}", f"page:     {stack.url}/")
    for line in (*lines, f"API key:  {where}", curl(stack.url, stack.model, file)):
        console.print(line, markup=False, soft_wrap=True)
    print(f"TOOLGATE READY {stack.url}", flush=True)


def curl(url: str, model: str, key_file: Path | None) -> str:
    """Return a shell command that sends a chat completion."""
    key = f"$(cat {shlex.quote(str(key_file))})" if key_file else f"${KEY_VARIABLE}"
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
    return (
        f'curl {url}/v1/chat/completions -H "Authorization: Bearer {key}" '
        f"-H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}"
    )
