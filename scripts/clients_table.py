"""Write the README's table of clients from JUnit reports: `python scripts/clients_table.py FILES`.

The tests are those of tests/clients, tests/proxy/process/clients and test_hosted_tools_clients.py.
Each client has the version that tests/clients pins. A client whose tests did not run has no row.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
CLIENTS = """
Claude Code: claude/package.json @anthropic-ai/claude-code test_claude_[^f]|\\[claude\\]
Claude Agent SDK: requirements-anthropic.txt claude-agent-sdk tool_of_its_own|claude_finds
Codex CLI: codex/package.json @openai/codex test_codex_|\\[codex
OpenCode: opencode/package.json opencode-ai \\[opencode
OpenAI SDK, Python: requirements.txt openai use_openai\\w*\\.py
OpenAI SDK, JavaScript: package.json openai use_openai\\.mjs|SDK.\\(JavaScript
OpenAI Agents SDK: requirements.txt openai-agents use_agents|\\[agents|session|Agents.SDK
Anthropic SDK, Python: requirements-anthropic.txt anthropic use_anthropic\\w*\\.py
Anthropic SDK, JavaScript: package.json @anthropic-ai/sdk use_anthropic\\.mjs
LangChain: requirements.txt langchain-openai use_langchain|\\[langchain|LangChain
pydantic-ai: requirements.txt pydantic-ai-slim use_pydantic|pydantic-ai
Instructor: requirements.txt instructor use_instructor
Vercel AI SDK: package.json ai use_vercel|\\[vercel|Vercel
"""
"""Names, where and as which package the version is pinned, and what names of its tests contain."""
ROWS = re.compile(r"(.+): (\S+) (\S+) (\S+)\n")
MARKERS = "<!-- clients: written by scripts/clients_table.py -->", "<!-- /clients -->"


def version(file: str, package: str) -> str:
    text = (ROOT / "tests" / "clients" / file).read_text()
    pin = rf'^\s*"?{re.escape(package)}(?:\[.*\])?"?(?:==|: ")([\d.]+)'
    return re.findall(pin, text, re.MULTILINE)[0]


def main(paths: list[str]) -> None:
    suites = [each for path in paths for each in ElementTree.parse(path).iter("testsuite")]
    cases = [case for suite in suites for case in suite.iter("testcase")]
    passed = {
        case.get("name", ""): len(case) == 0 for case in cases if case.find("skipped") is None
    }
    day = min(suite.get("timestamp", "") for suite in suites)[:10]
    title = f"tests passed with a scripted backend, {day}"
    lines = ["", f"| client | version | {title} |", "|---|---|---|"]
    for name, file, package, words in ROWS.findall(CLIENTS):
        if own := [ok for test, ok in passed.items() if re.search(words, test)]:
            lines.append(f"| {name} | {version(file, package)} | {sum(own)}/{len(own)} |")
    before, _, rest = README.read_text().partition(MARKERS[0])
    after = rest.partition(MARKERS[1])[2]
    README.write_text("\n".join([before + MARKERS[0], *lines, "", MARKERS[1] + after]))


if __name__ == "__main__":
    main(sys.argv[1:])
