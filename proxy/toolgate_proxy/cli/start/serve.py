"""`toolgate serve`: Redis, a backend and the gateway for one model."""

from __future__ import annotations

from typing import Annotated

import typer

from ..app import PASSED_ON, examples, new_app
from ..required import require, require_model

app = new_app()


@app.command(
    context_settings=PASSED_ON,
    epilog=examples(
        "toolgate serve Qwen/Qwen3-8B",
        "toolgate serve ./models/mine --name mine --port 8080 --tensor-parallel-size 2",
    ),
)
def serve(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="Model directory or Hugging Face model id.")],
    port: Annotated[int, typer.Option(help="Port of the gateway.")] = 4000,
    host: Annotated[str, typer.Option(help="Address of the gateway.")] = "127.0.0.1",
    name: Annotated[str | None, typer.Option(help="Model name for clients.")] = None,
    backend_port: Annotated[
        int | None, typer.Option(help="Port of vLLM and its /metrics. Default: a free port.")
    ] = None,
) -> None:
    """Run a model, Redis and the gateway on this machine.

    They run until Ctrl-C. Further options are passed to vLLM. The master key is
    TOOLGATE_MASTER_KEY, or it is generated
    once and kept in the user's configuration folder."""
    require_model(model)
    require("serve", "proxy", "backend")
    from ...stack.serve import serve as run
    from ...stack.stack import StackOptions

    options = StackOptions(
        model=model,
        port=port,
        host=host,
        served_name=name,
        backend_port=backend_port,
        backend_flags=context.args,
    )
    raise typer.Exit(run(options))
