"""Ends a command whose packages or model are missing, with one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ..stack.extras import MissingExtra, check, check_package
from ..stack.model_path import NoModel, check_model


def require(command: str, *extras: str) -> None:
    """Exits with status 2 if a package of an extra is not installed."""
    with _one_sentence():
        check(f"`toolgate {command}`", *extras)


def require_package(command: str, package: str) -> None:
    """Exits with status 2 if the package is not installed."""
    with _one_sentence():
        check_package(f"`toolgate {command}`", package)


def require_model(model: str) -> None:
    """Exits with status 2 if the model is a path where no model is. This is known before the
    imports of a start."""
    with _one_sentence():
        check_model(model)


@contextmanager
def _one_sentence() -> Iterator[None]:
    try:
        yield
    except (MissingExtra, NoModel) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
