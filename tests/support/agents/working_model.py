"""A model that works on a task in many steps, and knows nothing but its prompt.

It is told how far to work. Each step is a command, whose result says which step is done. So it
takes each step once, and in order, if and only if every prompt still shows what was done.
"""

import re
from dataclasses import dataclass

from tests.support.servers.script import Script, call
from toolgate_core.errors import ContextLengthExceeded
from toolgate_core.wire import ChatPrompt

TASK = "Work until step {}."
DONE = "Step {} is done."
FINISHED = "All is finished at step {}."
RECORD = "steps.txt"
"""The file in which the commands note their steps."""
SHELLS = {"Bash": "command", "bash": "command", "exec_command": "cmd", "shell_command": "command"}
"""The tools of clients that run commands, and the parameter with the command."""
SUMMARY = re.compile(
    "create a detailed summary|checkpoint compaction|anchored summary|construct a new summary"
    "|summary will replace",
    re.IGNORECASE,
)
"""In the last message, if a client or the gateway asks for a summary."""
CHARACTERS_PER_TOKEN = 4
RESULT_CHARACTERS = 3600
"""Of the result of a command."""


@dataclass
class WorkingModel:
    window: int
    """Its context, in tokens."""
    summaries: int = 0
    refused: int = 0
    """Prompts that were too long."""

    def tokens(self, prompt):
        return len(prompt.model_dump_json()) // CHARACTERS_PER_TOKEN

    def answer(self, message):
        prompt = message.prompt
        assert isinstance(prompt, ChatPrompt)
        tokens, wanted = self.tokens(prompt), message.sampling.max_tokens
        if tokens + (wanted or 1) > self.window:
            self.refused += 1
            output = wanted if tokens < self.window else None
            error = ContextLengthExceeded.of_tokens(self.window, tokens, output).body()["error"]
            return Script((), error_status=400, error=error)
        candidates = message.enforcement.candidates if message.enforcement else ()
        said = self._said(prompt, [each.name for each in candidates])
        return Script((said,), prompt_tokens=tokens, cached_tokens=0)

    def _said(self, prompt, tools):
        texts = [str(each.get("content")) for each in prompt.messages]
        goal, done = (latest(line, texts) for line in (TASK, DONE))
        if SUMMARY.search(texts[-1]):
            self.summaries += 1
            return f"<summary>{TASK.format(goal)} {DONE.format(done)}</summary>"
        shell = next((name for name in tools if name in SHELLS), None)
        if shell is None:
            return "A title"
        if done >= goal:
            return FINISHED.format(goal)
        needed = {"description": "Takes a step."} if shell == "bash" else {}
        return call(shell, {SHELLS[shell]: command(done + 1), **needed})


def latest(line, texts):
    """The largest number that the line has in the texts."""
    pattern = re.escape(line).replace(r"\{\}", r"(\d+)")
    return max((int(number) for text in texts for number in re.findall(pattern, text)), default=0)


def command(step):
    """A command that takes a step. It doesn't contain the line that its result has."""
    filler = f"head -c {RESULT_CHARACTERS} /dev/zero | tr '\\0' x"
    said = DONE.format("'$n'")
    return f"n={step}; {filler}; echo; echo '{said}' | tee -a {RECORD}"
