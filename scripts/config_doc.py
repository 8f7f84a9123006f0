"""Copy LiteLLM's configuration to where users look for it (`make docs`).

    python scripts/config_doc.py [--check]

`proxy/toolgate_proxy/server/litellm_config.yaml` is the original. It is copied to
`litellm_config.yaml`, and its settings, without comments, to the block in `docs/guide/gateway.md`,
after the models of that guide. With `--check` nothing is written. The exit status is 1 if a copy is
out of date.
"""

from __future__ import annotations

import re
from pathlib import Path

from generated import write_or_check

from toolgate_proxy.server.launcher import CONFIG

ROOT = Path(__file__).parents[1]
COPY = ROOT / "litellm_config.yaml"
GUIDE = ROOT / "docs" / "guide" / "gateway.md"
COMMENTS = re.compile(r"^ *#.*\n| +#.*", re.MULTILINE)
SETTINGS = re.compile(r"^litellm_settings:\n.*?(?=^YAML$|\Z)", re.DOTALL | re.MULTILINE)


def documents() -> dict[Path, str]:
    """Return the contents that both files should have."""
    original = CONFIG.read_text()
    settings = SETTINGS.search(original)
    guide = GUIDE.read_text()
    if settings is None or len(SETTINGS.findall(guide)) != 1:
        raise ValueError(f"No single block with `litellm_settings:` in {CONFIG} and {GUIDE}.")
    block = COMMENTS.sub("", settings[0]).replace("\n\n", "\n")
    return {COPY: original, GUIDE: SETTINGS.sub(lambda _: block, guide)}


if __name__ == "__main__":
    write_or_check(documents())
