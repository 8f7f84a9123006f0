"""Reading of YAML files that a person writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


class BadFile(Exception):
    """The file cannot be used. The message has the file and the place. Of what is no YAML it quotes
    nothing: the file may contain keys."""


def read_yaml(path: Path) -> Any:
    """Return the content, None of an empty file. Raise BadFile."""
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(
            f"{path} cannot be read ({type(error).__name__}). Check its path, permissions and "
            "encoding (UTF-8)."
        ) from error
    except yaml.reader.ReaderError as error:
        place = f"character {error.position + 1}"
        raise BadFile(f"{path}, {place}: invalid YAML: {error.reason}.") from None
    # PyYAML lets errors of its conversions through: `!!int x`, `!!bool x`, `!!timestamp x`.
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        if isinstance(error, yaml.constructor.ConstructorError) or problem is None:
            problem = "a value has an unknown tag, or is not of the type of its tag"
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise BadFile(f"{path}{line}: invalid YAML: {problem}.") from None
    except RecursionError:
        raise BadFile(f"{path}: invalid YAML: it is nested too deeply.") from None
