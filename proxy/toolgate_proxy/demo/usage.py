"""What the demo prints at its end: how to send requests of one's own."""

from __future__ import annotations

import shlex

from rich.console import Console

from ..stack.serve import KEY_VARIABLE, announce
from ..stack.stack import Stack
from .cases import WEATHER


def print_usage(stack: Stack, console: Console, *, keeps_serving: bool) -> None:
    """Without a stack that keeps serving, there is nothing to send a request to."""
    if not keeps_serving:
        console.print("[dim]To send requests of your own: toolgate demo, or toolgate serve MODEL")
        return
    for title, text in (
        ("Environment", environment(stack)),
        ("Python", python(stack)),
    ):
        console.print(f"\n[bold]{title}")
        console.print(text, markup=False, soft_wrap=True)
    console.print("\n[bold]Shell")
    announce(stack, console)
    console.print("Press Ctrl-C to stop everything.")


def environment(stack: Stack) -> str:
    """Lines for a shell. Clients of OpenAI read these variables."""
    key = f'"$(cat {shlex.quote(str(stack.key_file))})"' if stack.key_file else f'"${KEY_VARIABLE}"'
    return f"export OPENAI_BASE_URL={stack.url}/v1\nexport OPENAI_API_KEY={key}"


def python(stack: Stack) -> str:
    """A program that needs only the OpenAI SDK."""
    key = f"open({str(stack.key_file)!r}).read().strip()"
    imports = "from openai import OpenAI"
    if not stack.key_file:
        key, imports = f'os.environ["{KEY_VARIABLE}"]', f"import os\n{imports}"
    return f"""{imports}
client = OpenAI(base_url="{stack.url}/v1", api_key={key})
response = client.chat.completions.create(
    model="{stack.model}",
    messages=[{{"role": "user", "content": "What's the weather in Beijing and Shanghai?"}}],
    tools=[{WEATHER!r}],
    tool_choice="required",
    reasoning_effort="none",
)
print(response.choices[0].message.tool_calls)"""
