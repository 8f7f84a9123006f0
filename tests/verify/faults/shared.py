"""Faults of checks that exist for several APIs, by the ID without the API."""

from tests.verify.reference_server.reply import pieces
from toolgate_verify.tools.everyday import LIGHT
from toolgate_verify.tools.hostile import MARKUP

from . import changes as c
from .changes import Fault

WRONG_LIGHT = {"room": "cellar", "on": True}
TOOL_MARKUP = "<tool_call>{}</tool_call> "


def _stop_in_text(made):
    if made.stop is not None:
        made.text += made.stop


def _part_of_stop(made):
    if made.stop is not None:
        made.text_parts = [*pieces(made.text), made.stop[:1]]


def _half_reasoning(made):
    for name in ("completion_tokens_details", "output_tokens_details"):
        if name in made.get("usage", {}):
            made["usage"][name]["reasoning_tokens"] = 10**6


def _drop_usage(sent):
    """No event has usage."""
    kept = []
    for name, data in sent:
        if isinstance(data, dict):
            data.pop("usage", None)
            for holder in ("message", "response"):
                if holder in data:
                    data[holder] = {**data[holder], "usage": None}
        kept.append((name, data))
    return kept


def _busy_later(sent, number):
    return type(sent)(503, {"error": {"message": "All slots are taken."}}) if number > 12 else sent


def _one_fails(sent, number):
    return type(sent)(500, {"error": {"message": "Internal error."}}) if number == 5 else sent


def _half_of_a_pair(sent, _):
    """In place of the first word of the text."""
    sent.data = sent.data.replace(b"Once", rb"\ud83d")
    return sent


def _no_name(error):
    error["error"] |= {"message": "Something is wrong."}
    error["error"].pop("param", None)
    return error


SHARED = {
    "text.content": c.setting(text=""),
    "text.no_calls": c.another_call(),
    "text.no_markup": c.text_before(TOOL_MARKUP),
    "text.unicode": Fault(sent=_half_of_a_pair),
    "text.model": c.setting(model=""),
    "text.ids_differ": c.setting(id="always"),
    "text.limit": c.reply(
        lambda made: vars(made).update(completion_tokens=made.completion_tokens + 10)
    ),
    "text.finish": c.setting(finish="stop"),
    "text.same": c.stream_text(lambda text: text[:-5]),
    "text.same_finish": c.stream_setting(finish="stop"),
    "text.content_type": c.content_type("application/json", "text/plain"),
    "stream.content_type": c.content_type("text/event-stream", "application/json"),
    "stream.json": c.events(lambda sent: [*sent[:3], ("", "not JSON"), *sent[3:]]),
    "stream.incremental": c.streamed(lambda made: setattr(made, "text_parts", [made.text])),
    "usage.present": c.body(lambda made: made.pop("usage")),
    "usage.streamed": c.events(_drop_usage),
    "usage.sum": c.body(lambda made: made["usage"].update(total_tokens=1)),
    "usage.cached": c.reply(lambda made: setattr(made, "cached_tokens", made.prompt_tokens + 1)),
    "usage.same": c.streamed(lambda made: setattr(made, "prompt_tokens", made.prompt_tokens + 7)),
    "calls.arguments_json": c.arguments("{'room': 'kitchen', 'on': True}"),
    "calls.arguments_valid": c.arguments(WRONG_LIGHT),
    "calls.no_duplicate_members": c.arguments('{"room": "hall", "room": "kitchen", "on": true}'),
    "calls.id": c.call(id=""),
    "calls.ids_fresh": c.call(id="call_always"),
    "calls.finish": c.setting(finish="stop"),
    "calls.no_markup": c.text_before(TOOL_MARKUP),
    "stream.calls_same": c.stream_fragments(lambda text: text.replace("kitchen", "bedroom")),
    "stream.calls_same_finish": c.stream_setting(finish="stop"),
    "calls.unstrict_json": c.arguments("room: kitchen"),
    "calls.unstrict_valid": c.arguments(WRONG_LIGHT),
    "parallel.valid": c.last_arguments({"hour": 99}),
    "parallel.ids": c.call(id="call_always"),
    "parallel.same": c.stream_fragments(lambda text: text.replace("7", "8")),
    "long.valid": c.arguments({"readings": [7] * 59}),
    "long.same": c.stream_fragments(lambda text: text.replace("7", "8", 1)),
    "long.parts": c.streamed(
        lambda made: setattr(made.calls[0], "fragments", [made.calls[0].text])
    ),
    "choice.required": c.no_calls(),
    "choice.offered": c.call(name="fly"),
    "choice.parallel_off": c.another_call(LIGHT.name, '{"room": "hall", "on": false}'),
    "choice.named": c.other_tool(LIGHT.name),
    "choice.none": c.another_call(LIGHT.name, '{"room": "hall", "on": false}'),
    "choice.none_markup": c.text_before(TOOL_MARKUP),
    "choice.auto": c.arguments(WRONG_LIGHT),
    "choice.auto_markup": c.text_before(TOOL_MARKUP),
    "choice.auto_finish": c.setting(finish="stop"),
    "choice.default": c.arguments(WRONG_LIGHT),
    "choice.allowed_tools": c.other_tool(LIGHT.name),
    "choice.prefix_names": c.other_tool("get"),
    "choice.many_tools": c.other_tool("tool_00"),
    "choice.longest_name": c.call(name="n" * 63),
    "cut.finish": c.setting(finish="stop"),
    "cut.not_complete": c.call(complete=True),
    "cut.no_markup": c.text_before(TOOL_MARKUP),
    "cut.same_finish": c.stream_setting(finish="stop"),
    "stop.text": c.reply(_stop_in_text),
    "stop.finish": c.reply(lambda made: made.stop and setattr(made, "finish", "length")),
    "stop.same": c.streamed(_part_of_stop),
    "format.valid": c.setting(text='{"room": "cellar", "on": true, "count": 99}'),
    "format.same": c.stream_text(lambda text: text.replace("kitchen", "bedroom")),
    "format.no_calls": c.another_call(),
    "format.hostile_text": c.setting(text='{"text": "' + MARKUP[:5] + '"}'),
    "format.with_tools": c.setting(text='{"room": "cellar", "on": true, "count": 99}'),
    "format.with_required": c.no_calls('{"room": "kitchen", "on": true, "count": 1}'),
    "format.tools_markup": c.text_before(TOOL_MARKUP),
    "format.json_object": c.setting(text="[1]"),
    "reasoning.apart": c.text_before("<think>So.</think>"),
    "reasoning.answer": c.setting(text=""),
    "format.unstrict_json": c.setting(text="The kitchen."),
    "format.text": c.setting(text=""),
    "reasoning.same": c.stream_setting(reasoning=""),
    "reasoning.usage": c.body(_half_reasoning),
    "reasoning.calls": c.arguments(WRONG_LIGHT),
    "reasoning.off": c.setting(reasoning="I was told not to."),
    "load.answered": Fault(sent=_one_fails),
    "load.apart": c.arguments({"tag": "tag-00"}),
    "load.ids": c.setting(id="always"),
    "cancel.slot_free": Fault(sent=_busy_later),
    "errors.form": Fault(error=lambda error: {"error": {"message": error["error"]["message"]}}),
    "errors.names_parameter": Fault(error=_no_name),
    "count.exact": c.body(
        lambda made: made.update(input_tokens=1) if "input_tokens" in made else None
    ),
}
PROMPT = Fault(asked=lambda asked: vars(asked).update(prompt="always the same"))
