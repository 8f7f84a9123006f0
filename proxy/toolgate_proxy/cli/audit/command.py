"""`toolgate audit`: verifies receipts of a log offline."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..app import examples, new_app

app = new_app()


@app.command(
    epilog=examples(
        "toolgate audit --new-key ed25519",
        "toolgate audit log.jsonl --key ed25519-public:…",
        "toolgate audit - < log.jsonl",
    )
)
def audit(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="JSON lines: responses, or objects with `request` and `response`. `-` is "
            "standard input."
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            envvar="TOOLGATE_RECEIPT_KEY",
            help="Key of the receipts: `ed25519-public:…`, `ed25519:…` or `hmac:…`.",
        ),
    ] = None,
    open_objects: Annotated[
        bool, typer.Option(help="The gateway runs with TOOLGATE_OPEN_OBJECTS.")
    ] = False,
    new_key: Annotated[
        str | None, typer.Option(help="Print a new key: `ed25519` or `hmac`, and end.")
    ] = None,
) -> None:
    """Verify the receipts of responses, without a gateway.

    A receipt is valid if its signature matches, and if the calls of the response are those that
    the gateway sent. With the request, the schemas must be those that were enforced, and the
    arguments must satisfy them. The exit status is 1 if a line fails."""
    from ...receipts.keys import InvalidReceiptKey, read_key
    from ...receipts.keys import new_key as generated
    from .auditing import AuditFailed
    from .auditing import audit as audited
    from .log_line import NotALine, read_line

    try:
        if new_key is not None:
            _print_key(*generated(new_key))
            return
        if file is None or key is None:
            raise InvalidReceiptKey("name a file, and the key of its receipts with --key")
        verifier = read_key(key)
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
    except (InvalidReceiptKey, OSError, ValueError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    lines = [each for each in enumerate(text.splitlines(), 1) if each[1].strip()]
    failed = 0
    for number, line in lines:
        try:
            audited(read_line(line), verifier, open_objects=open_objects)
        except (AuditFailed, NotALine) as error:
            failed += 1
            typer.echo(f"line {number}: {error}", err=True)
    typer.echo(f"{len(lines) - failed} of {len(lines)} responses match their receipts")
    raise typer.Exit(1 if failed or not lines else 0)


def _print_key(private: str, public: str) -> None:
    typer.echo(f"TOOLGATE_RECEIPT_KEY={private}")
    if public != private:
        typer.echo(f"toolgate audit log.jsonl --key {public}")
