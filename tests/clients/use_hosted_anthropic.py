"""The Anthropic SDK with tools that the gateway runs, the MCP connector and web search, and with
the text editor, run by the SDK's own runner. The answers are scripted."""

from pathlib import Path

import anthropic
import hosted
import shared
from anthropic.lib.tools import BetaBuiltinFunctionTool, ToolError

client = anthropic.Anthropic(base_url=shared.ORIGIN, api_key=shared.KEY, max_retries=0)
COMMON = {"model": shared.MODEL, "max_tokens": 500, "extra_body": shared.BODY}
ASKED = [hosted.user(shared.QUESTION)]


class Editor(BetaBuiltinFunctionTool):
    def to_dict(self):
        return {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}

    def call(self, input):
        file, command = Path(input["path"]), input["command"]
        if command == "view":
            return file.read_text()
        if command == "create":
            file.write_text(input["file_text"])
        elif command == "insert":
            lines = file.read_text().splitlines(keepends=True)
            lines.insert(input["insert_line"], input["insert_text"])
            file.write_text("".join(lines))
        elif input["old_str"] not in file.read_text():
            raise ToolError("There is no such text.")
        else:
            file.write_text(file.read_text().replace(input["old_str"], input["new_str"]))
        return "Done."


def both(what, **tools):
    """A whole message and a streamed one, each of which goes on for another turn."""
    messages = []
    for streamed in (False, True):
        if streamed:
            with client.beta.messages.stream(messages=ASKED, **COMMON, **tools) as stream:
                message = stream.get_final_message()
        else:
            message = client.beta.messages.create(messages=ASKED, **COMMON, **tools)
        turns = [*ASKED, {"role": "assistant", "content": message.content}, hosted.user("And?")]
        more = client.beta.messages.create(messages=turns, **COMMON, **tools)
        assert more.content[0].text == hosted.LAST
        messages.append(message)
    shared.done(what)
    return messages


def check_connector():
    for message in both(
        "the MCP connector",
        mcp_servers=[{"type": "url", "name": "shop", "url": hosted.MCP}],
        tools=[{"type": "mcp_toolset", "mcp_server_name": "shop"}],
        betas=["mcp-client-2025-11-20"],
    ):
        use, result, text = message.content
        assert (use.type, use.name, use.server_name) == ("mcp_tool_use", hosted.LOOKUP, "shop")
        assert (result.type, result.tool_use_id) == ("mcp_tool_result", use.id)
        assert result.content[0].text == hosted.RECORD
        assert text.text == hosted.FOUND


def check_search():
    tool = {"type": "web_search_20250305", "name": "web_search"}
    for message in both("web search", tools=[tool]):
        use, result, text = message.content
        assert (use.type, use.input) == ("server_tool_use", {"query": hosted.QUERY})
        assert [page.url for page in result.content] == [hosted.PAGE]
        assert text.text == hosted.CITED
        assert [note.url for note in text.citations] == [hosted.PAGE]
        assert message.usage.server_tool_use.web_search_requests == 1


def check_editor():
    runner = client.beta.messages.tool_runner(messages=ASKED, tools=[Editor()], **COMMON)
    assert runner.until_done().content[0].text == hosted.LAST
    assert Path("notes.txt").read_text() == "zero\none\ntwo\n"
    shared.done("the text editor")


check_connector()
check_search()
check_editor()
