"""Faults of other forms than those of table.py, by the ID of the check without the API."""

from tests.verify.faults import changes as c
from tests.verify.faults.changes import Fault
from tests.verify.reference_server.reply import pieces
from toolgate_verify.tools.hostile import MARKUP

# --- of several APIs ---


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
    "text.unicode": Fault(sent=_half_of_a_pair),
    "text.limit": c.reply(
        lambda made: vars(made).update(completion_tokens=made.completion_tokens + 10)
    ),
    "text.same": c.stream_text(lambda text: text[:-5]),
    "stream.json": c.events(lambda sent: [*sent[:3], ("", "not JSON"), *sent[3:]]),
    "stream.incremental": c.streamed(lambda made: setattr(made, "text_parts", [made.text])),
    "usage.streamed": c.events(_drop_usage),
    "usage.cached": c.reply(lambda made: setattr(made, "cached_tokens", made.prompt_tokens + 1)),
    "usage.same": c.streamed(lambda made: setattr(made, "prompt_tokens", made.prompt_tokens + 7)),
    "long.valid": c.arguments({"readings": [7] * 59}),
    "long.parts": c.streamed(
        lambda made: setattr(made.calls[0], "fragments", [made.calls[0].text])
    ),
    "stop.text": c.reply(_stop_in_text),
    "stop.finish": c.reply(lambda made: made.stop and setattr(made, "finish", "length")),
    "stop.same": c.streamed(_part_of_stop),
    "format.hostile_text": c.setting(text='{"text": "' + MARKUP[:5] + '"}'),
    "reasoning.usage": c.body(_half_reasoning),
    "load.answered": Fault(sent=_one_fails),
    "cancel.slot_free": Fault(sent=_busy_later),
    "errors.form": Fault(error=lambda error: {"error": {"message": error["error"]["message"]}}),
    "errors.names_parameter": Fault(error=_no_name),
    "count.exact": c.body(
        lambda made: made.update(input_tokens=1) if "input_tokens" in made else None
    ),
}
PROMPT = Fault(asked=lambda asked: vars(asked).update(prompt="always the same"))


# --- of one API ---


def _choices(change):
    """Changes each choice of each chunk that has one."""
    return c.each_event(lambda chunk: [change(choice) for choice in chunk.get("choices", ())])


def _other_ids(choice):
    """Fragments of calls but the first ones, which have an ID, get another one."""
    for part in choice["delta"].get("tool_calls", ()):
        if "id" not in part:
            part["id"] = "call_other"


def _numbered(change):
    def apply(sent):
        for number, (_, data) in enumerate(sent):
            if isinstance(data, dict):
                change(number, data)

    return c.events(c.in_place(apply))


def _text_after_finish(sent):
    end = next(i for i, (_, data) in enumerate(sent) if data["choices"][0]["finish_reason"])
    return [*sent[: end + 1], sent[1], *sent[end + 1 :]]


def _usage_early(sent):
    sent[-3][1]["usage"] = sent[-2][1]["usage"]
    return [*sent[:-2], sent[-1]]


def _interleaved(sent):
    calls = [at for at, (_, data) in enumerate(sent) if _has_call(data)]
    at = [*calls[:1], calls[-1], *calls[1:-1]]
    moved = iter([sent[each] for each in at])
    return [next(moved) if number in calls else one for number, one in enumerate(sent)]


def _has_call(data):
    return isinstance(data, dict) and any("tool_calls" in x["delta"] for x in data["choices"])


CHAT = {
    "chunks.done": c.events(lambda sent: sent[:-1]),
    "chunks.same_id": _numbered(lambda number, chunk: chunk.update(id=f"chatcmpl-{number}")),
    "chunks.same_created": _numbered(lambda number, chunk: chunk.update(created=number)),
    "chunks.finish_once": c.events(_text_after_finish),
    "chunks.usage_last": c.events(_usage_early),
    "chunks.call_id_once": _choices(_other_ids),
    "chunks.call_order": c.events(_interleaved),
    "n.whole": c.body(lambda made: made["choices"].pop()),
    "n.streamed": _choices(lambda choice: choice["index"] and choice.update(finish_reason=None)),
    "seed.same": c.stream_text(lambda text: text[::-1]),
}


def _overlap(sent):
    """The second block begins before the first one ends."""
    stop = next(at for at, (name, _) in enumerate(sent) if name == "content_block_stop")
    return [*sent[:stop], sent[stop + 1], sent[stop], *sent[stop + 2 :]]


def _block_last(sent):
    """`message_delta` comes before the last block ends."""
    return [*sent[:-3], sent[-2], sent[-3], sent[-1]]


def _other_indices(event):
    if "index" in event:
        event["index"] += 1


def _other_sequence(made):
    if made.stop is not None:
        made.stop = "another"


def _text_delta(event):
    if event["delta"]["type"] == "input_json_delta":
        event["delta"] = {"type": "text_delta", "text": event["delta"]["partial_json"]}


def _no_signature(sent):
    return [each for each in sent if each[1].get("delta", {}).get("type") != "signature_delta"]


CUT_CALL = {"type": "tool_use", "id": "toolu_cut", "name": "save_text", "input": {}}
MESSAGES = {
    "cut.not_complete": c.body(lambda made: made["content"].append(CUT_CALL)),
    "body.text_blocks": c.body(
        lambda made: made["content"].insert(0, {"type": "text", "text": ""})
    ),
    "reasoning.first": c.body(lambda made: made["content"].reverse()),
    "stop.sequence": c.reply(_other_sequence),
    "events.names": c.events(lambda sent: [("", data) for _, data in sent]),
    "events.begin": c.events(lambda sent: [sent[0], *sent]),
    "events.end": c.events(_block_last),
    "events.indices": c.each_event(_other_indices),
    "events.no_overlap": c.events(_overlap),
    "events.delta_types": c.each_event(_text_delta, "content_block_delta"),
    "events.input_joined": c.stream_fragments(lambda text: text[:-1]),
    "events.signature": c.events(_no_signature),
}


def _event(kind, change):
    return c.each_event(change, f"response.{kind}")


def _gap(sent):
    for _, data in sent[3:]:
        data["sequence_number"] += 1
    return sent


def _no_progress(sent):
    kept = [sent[0], *sent[2:]]
    for number, (_, data) in enumerate(kept):
        data["sequence_number"] = number
    return kept


def _two_ends(sent):
    name, data = sent[-1]
    return [*sent, (name, {**data, "sequence_number": len(sent)})]


def _renamed_end(sent):
    """The last event has the type of the other status."""
    _, data = sent[-1]
    other = "response.completed" if "incomplete" in data["type"] else "response.incomplete"
    return [*sent[:-1], (other, {**data, "type": other})]


def _overlap_responses(sent):
    at = next(i for i, (_, data) in enumerate(sent) if data.get("output_index") == 1)
    return [*sent[:2], sent[at], *sent[2:at], *sent[at + 1 :]]


def _done_though_cut(sent):
    name = "response.function_call_arguments.done"
    delta = next(data for kind, data in sent if kind.endswith("arguments.delta"))
    text = "".join(data["delta"] for kind, data in sent if kind.endswith("arguments.delta"))
    done = {**delta, "type": name, "arguments": text}
    return [*sent[:-1], (name, done), sent[-1]]


def _state(index, body, status=200):
    """Another answer to the operation with this number on a stored response."""
    count = 0

    def apply(_, sent):
        nonlocal count
        count += 1
        return type(sent)(status, body) if count == index else sent

    return Fault(state=apply)


def _forgets(asked):
    if "previous_response_id" in asked.body:
        asked.prompt = asked.prompt[:4]


RESPONSES = {
    "events.names": c.events(lambda sent: [("", data) for _, data in sent]),
    "events.sequence": c.events(_gap),
    "events.begin": c.events(_no_progress),
    "events.end": c.events(_two_ends),
    "events.end_status": c.events(_renamed_end),
    "events.items_numbered": _event(
        "output_item.added", lambda e: e.update(output_index=e["output_index"] + 1)
    ),
    "events.text_done": _event("output_text.done", lambda e: e.update(text=e["text"] + ".")),
    "events.call_order": c.events(_overlap_responses),
    "events.cut_not_done": c.events(_done_though_cut),
    "state.retrieve": _state(1, {"id": "resp_other", "output": []}),
    "state.input_items": _state(2, {"object": "list", "data": []}),
    "state.continue": Fault(asked=_forgets),
    "state.delete": _state(3, {"deleted": False}),
    "state.deleted": _state(4, {"id": "resp_back"}),
}


def echo(name):
    return c.body(lambda made: made.update({name: "something else"}))
