"""A made-up model family, the example of the recipe in CONTRIBUTING.md. Its files are as if they
were parts of `families.toml` and `goldens.toml`."""

from pathlib import Path

from toolgate_core.dialects.dialect import goldens, read_goldens
from toolgate_core.dialects.registry import read_families

DEFINITION = Path(__file__).with_name("made_up_family.toml").read_text()
SANDPIPER = read_families(DEFINITION)["sandpiper"]
goldens().update(read_goldens(Path(__file__).with_name("made_up_goldens.toml").read_text()))
