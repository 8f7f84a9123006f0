"""Packages that a gateway must not need (requirements/proxy-unused.txt).

After the import of this module, they can't be imported. The process from which the gateways of the
tests are forked imports it first.
"""

import sys
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

LIST = Path(__file__).parents[3] / "requirements" / "proxy-unused.txt"


def packages():
    lines = (line.partition("#")[0].strip() for line in LIST.read_text().splitlines())
    return [line for line in lines if line]


def modules(package):
    """The top-level modules of an installed package; none if it is not installed."""
    try:
        parts = [path.parts[0] for path in files(package) or () if path.suffix in (".py", ".so")]
    except PackageNotFoundError:
        return set()
    return {part.partition(".")[0] for part in parts if not part.startswith(("..", "__pycache__"))}


class Missing:
    """A finder that behaves as if modules were not installed."""

    def __init__(self, names):
        self.names = names

    def find_spec(self, name, _path=None, _target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r} (proxy-unused.txt)", name=name)
        return


MISSING = Missing({name for package in packages() for name in modules(package)})
sys.meta_path.insert(0, MISSING)
