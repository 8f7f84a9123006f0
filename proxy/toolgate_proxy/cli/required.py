"""Ends a command whose packages are not installed, with one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ..stack.extras import MissingExtra, check, check_package


def require(command: str, *extras: str) -> None:
    """Exits with status 2 if a package of an extra is not installed."""
    with _one_sentence():
        check(f"`toolgate {command}`", *extras)


def require_package(command: str, package: str) -> None:
    """Exits with status 2 if the package is not installed."""
    with _one_sentence():
        check_package(f"`toolgate {command}`", package)


@contextmanager
def _one_sentence() -> Iterator[None]:
    try:
        yield
    except MissingExtra as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
