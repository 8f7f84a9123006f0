"""The built-in tools of the OpenAI Agents SDK: `ShellTool`, `LocalShellTool`, `ApplyPatchTool`. The
answers are scripted, since a random model writes no commands."""

import asyncio
import subprocess
from pathlib import Path

import openai
import shared
from agents import (
    Agent,
    ApplyPatchTool,
    LocalShellTool,
    ModelSettings,
    OpenAIResponsesModel,
    Runner,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellResult,
    ShellTool,
    apply_diff,
    set_tracing_disabled,
)
from agents.items import ToolCallOutputItem

set_tracing_disabled(True)
client = openai.AsyncOpenAI(base_url=shared.URL, api_key=shared.KEY, max_retries=0)


def run_commands(request):
    output = []
    for command in request.data.action.commands:
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        outcome = ShellCallOutcome(type="exit", exit_code=done.returncode)
        output.append(ShellCommandOutput(done.stdout, done.stderr, outcome, command))
    return ShellResult(output)


def run_program(request):
    action = request.data.action
    return subprocess.run(action.command, capture_output=True, text=True, check=True).stdout


class Editor:
    def create_file(self, operation):
        Path(operation.path).write_text(apply_diff("", operation.diff, mode="create"))
        return f"Created {operation.path}"

    def update_file(self, operation):
        file = Path(operation.path)
        file.write_text(apply_diff(file.read_text(), operation.diff))
        return f"Updated {operation.path}"

    def delete_file(self, operation):
        Path(operation.path).unlink()


agent = Agent(
    "worker",
    model=OpenAIResponsesModel(shared.MODEL, openai_client=client),
    model_settings=ModelSettings(store=False, extra_body=shared.BODY),
    tools=[
        ShellTool(executor=run_commands),
        LocalShellTool(executor=run_program),
        ApplyPatchTool(editor=Editor()),
    ],
)


def check(result):
    outputs = [item for item in result.new_items if isinstance(item, ToolCallOutputItem)]
    assert [item.raw_item["type"] for item in outputs] == [
        "shell_call_output",
        "apply_patch_call_output",
        "apply_patch_call_output",
        "local_shell_call_output",
        "apply_patch_call_output",
        "apply_patch_call_output",
    ]
    assert outputs[3].output == "one\ntwo"
    assert not Path("notes.txt").exists()
    assert result.final_output == "All is done."


async def main():
    check(await Runner.run(agent, shared.QUESTION))
    shared.done("the tools are run")
    streamed = Runner.run_streamed(agent, shared.QUESTION)
    raw = [event.data.type async for event in streamed.stream_events() if "raw" in event.type]
    assert "response.shell_call_command.delta" in raw
    assert "response.apply_patch_call_operation_diff.delta" in raw
    check(streamed)
    shared.done("the tools are run in a stream")


asyncio.run(main())
