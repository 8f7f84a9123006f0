"""Ask a model the hundred conversations of conversations.jsonl, through Toolgate and as vLLM alone.

    python demo_model/demo_evaluation.py [--model DIR] [--misses]

Sampling is greedy. An answer is right if it has exactly the expected calls, in their order, or is a
sentence with everything that the results contain. It is valid if each call names a tool and its
arguments conform to the schema.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import jsonschema
from rich.console import Console

from toolgate_demo_model import path
from toolgate_proxy.ops.demo.comparison import unconstrained
from toolgate_proxy.ops.demo.model import NAME
from toolgate_proxy.ops.stack.processes import free_port
from toolgate_proxy.ops.stack.stack import Stack, StackOptions

CONVERSATIONS = Path(__file__).parent / "conversations.jsonl"
AT_ONCE = 8
MAX_TOKENS = 300
CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)
ENDS = (".", "!", "?", "。", "！", "？")


@dataclass(frozen=True)
class Answer:
    calls: tuple[tuple[str, str], ...]
    """Name and arguments of each complete call, as they were written."""
    content: str

    def parsed(self) -> list[dict[str, Any]] | None:
        """Return the calls as in conversations.jsonl, or None if any arguments are not JSON."""
        try:
            return [{"name": name, "arguments": json.loads(text)} for name, text in self.calls]
        except ValueError:
            return None


@dataclass(frozen=True)
class Conversation:
    section: str
    tools: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    calls: list[dict[str, Any]] = field(default_factory=list)
    holds: list[str] = field(default_factory=list)
    """Texts that an answer without calls must contain."""

    def request(self) -> dict[str, Any]:
        """Return the request to the chat completions API."""
        request: dict[str, Any] = {"messages": self.messages, "tools": self.tools} | {
            "temperature": 0,
            "max_tokens": MAX_TOKENS,
            "reasoning_effort": "none",
        }
        return request if self.tools else {k: v for k, v in request.items() if k != "tools"}

    def right(self, answer: Answer) -> bool:
        if self.calls:
            return answer.parsed() == self.calls
        ends = answer.content.rstrip().endswith(ENDS)
        return not answer.calls and ends and all(text in answer.content for text in self.holds)

    def valid(self, answer: Answer) -> bool:
        schemas = {t["function"]["name"]: t["function"]["parameters"] for t in self.tools}
        calls = answer.parsed()
        if calls is None:
            return False
        try:
            for call in calls:
                schema = schemas[call["name"]] | {"additionalProperties": False}
                jsonschema.validate(call["arguments"], schema)
        except (KeyError, jsonschema.ValidationError):
            return False
        return True


def conversations() -> list[Conversation]:
    lines = CONVERSATIONS.read_text(encoding="utf-8").splitlines()
    return [Conversation(**json.loads(line)) for line in lines]


def ask_toolgate(stack: Stack, conversation: Conversation) -> Answer:
    """Raise httpx.HTTPError if there is no answer."""
    response = httpx.post(
        f"{stack.url}/v1/chat/completions",
        json={"model": stack.model, **conversation.request()},
        headers={"authorization": f"Bearer {stack.master_key}"},
        timeout=300,
        trust_env=False,
    )
    response.raise_for_status()
    choice = response.json()["choices"][0]
    functions = [call["function"] for call in choice["message"].get("tool_calls") or []]
    if choice.get("toolgate", {}).get("last_call") == "cut":  # docs/api/chat.md
        functions.pop()
    calls = tuple((function["name"], function["arguments"]) for function in functions)
    return Answer(calls, choice["message"].get("content") or "")


def ask_vllm(stack: Stack, conversation: Conversation) -> Answer:
    """Raise httpx.HTTPError if there is no answer."""
    return read(unconstrained(stack, conversation.request())[0])


def read(text: str) -> Answer:
    """Read raw text as a client would."""
    text = text.rpartition("</think>")[2].strip()
    calls = []
    for written in CALL.findall(text):
        try:
            call = json.loads(written)
            calls.append((str(call["name"]), json.dumps(call["arguments"])))
        except (ValueError, KeyError, TypeError):
            calls.append(("", written))
    return Answer(tuple(calls), CALL.sub("", text).strip())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=str(path()))
    parser.add_argument("--misses", action="store_true", help="print wrong answers of Toolgate")
    arguments = parser.parse_args()
    asked = conversations()
    answers: dict[str, list[Answer]] = {}
    ways: dict[str, Callable[[Stack, Conversation], Answer]] = {
        "alone": ask_vllm,
        "enforced": ask_toolgate,
    }
    options = StackOptions(arguments.model, port=free_port(), served_name=NAME)
    with Stack(options, Console(stderr=True)) as stack, ThreadPoolExecutor(AT_ONCE) as pool:
        for name, ask in ways.items():
            answers[name] = list(pool.map(lambda each, ask=ask: ask(stack, each), asked))
    for name, given in answers.items():
        right = sum(c.right(a) for c, a in zip(asked, given, strict=True))
        valid = sum(c.valid(a) for c, a in zip(asked, given, strict=True))
        print(f"{name}: {right} of {len(asked)} right, {valid} valid")
    if arguments.misses:
        for conversation, answer in zip(asked, answers["enforced"], strict=True):
            if not conversation.right(answer):
                print(
                    f"[{conversation.section}] {conversation.messages[-1]['content']}\n  {answer}"
                )


if __name__ == "__main__":
    main()
