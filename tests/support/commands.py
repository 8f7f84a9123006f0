"""Programs of a package that run by name: `python -m PACKAGE NAME [options]`."""

import argparse
import ast
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path


def run(package: str, programs: Mapping[str, str], arguments: Sequence[str]) -> int:
    """Run the program that the first argument names, and return its exit status.

    `programs` maps names to modules of the package. The `main()` of a module parses the options and
    returns the exit status, or nothing."""
    name = arguments[0] if arguments else "--list"
    if name in ("--list", "--help", "-h"):
        print(f"usage: python -m {package} NAME [options]\n")
        print(_listing(package, programs))
        return 0
    if name not in programs:
        listing = _listing(package, programs)
        print(f"There is no {name!r} in {package}. Choose one of:\n\n{listing}", file=sys.stderr)
        return 2
    # When it is imported, LiteLLM otherwise fetches a table of prices.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    sys.argv = [f"python -m {package} {name}", *arguments[1:]]
    status: int | None = import_module(f"{package}.{programs[name]}").main()
    return status or 0


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help has the docstring of a program as it is written."""
    return argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def _listing(package: str, programs: Mapping[str, str]) -> str:
    """List the names with the first line of each module's docstring. Nothing is imported, because
    some imports take seconds."""
    folder = Path(import_module(package).__path__[0])
    width = max(map(len, programs))
    lines = []
    for name, module in programs.items():
        source = folder.joinpath(*module.split(".")).with_suffix(".py").read_text()
        first = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
        lines.append(f"{name:{width}}  {first}")
    return "\n".join(lines)
