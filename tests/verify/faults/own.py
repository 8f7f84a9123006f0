"""Faults of checks of one API, by the ID without the API."""

from tests.verify.faults import changes as c
from tests.verify.faults.changes import Fault


def _choices(change):
    """Changes each choice of each chunk that has one."""
    return c.each_event(lambda chunk: [change(choice) for choice in chunk.get("choices", ())])


def _fragments(change, first=None):
    """Changes fragments of calls: all, the first ones (which have an ID), or the others."""

    def apply(choice):
        for part in choice["delta"].get("tool_calls", ()):
            if first is None or first == ("id" in part):
                change(part)

    return _choices(apply)


def _numbered(change):
    def apply(sent):
        for number, (_, data) in enumerate(sent):
            if isinstance(data, dict):
                change(number, data)

    return c.events(c.in_place(apply))


def _parts(member, kind, change):
    """Changes the parts of a type in a member of whole answers."""
    return c.body(lambda made: [change(each) for each in made[member] if each["type"] == kind])


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


def _logprobs(change):
    return c.body(lambda made: change(made["choices"][0]["logprobs"]["content"]))


CHAT = {
    "body.object": c.body(lambda made: made.update(object="completion")),
    "body.message": c.body(lambda made: made["choices"][0]["message"].update(role="model")),
    "body.finish_values": c.body(lambda made: made["choices"][0].update(finish_reason="eos")),
    "body.call_type": c.body(
        lambda made: made["choices"][0]["message"]["tool_calls"][0].pop("type")
    ),
    "chunks.done": c.events(lambda sent: sent[:-1]),
    "chunks.object": c.each_event(lambda chunk: chunk.update(object="chat.completion")),
    "chunks.same_id": _numbered(lambda number, chunk: chunk.update(id=f"chatcmpl-{number}")),
    "chunks.same_created": _numbered(lambda number, chunk: chunk.update(created=number)),
    "chunks.role": _choices(lambda choice: choice["delta"].pop("role", None)),
    "chunks.finish_once": c.events(_text_after_finish),
    "chunks.usage_last": c.events(_usage_early),
    "chunks.no_usage": c.each_event(
        lambda chunk: chunk.update(
            usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        )
    ),
    "chunks.call_name_once": _fragments(lambda part: part["function"].update(name="set_light")),
    "chunks.call_id_once": _fragments(lambda part: part.update(id="call_other"), first=False),
    "chunks.call_type": _fragments(lambda part: part.pop("type"), first=True),
    "chunks.call_order": c.events(_interleaved),
    "n.whole": c.body(lambda made: made["choices"].pop()),
    "n.streamed": _choices(lambda choice: choice["index"] and choice.update(finish_reason=None)),
    "n.usage": c.body(lambda made: made["usage"].update(completion_tokens=1, total_tokens=2)),
    "seed.same": c.stream_text(lambda text: text[::-1]),
    "logprobs.text": _logprobs(lambda tokens: tokens.pop(0)),
    "logprobs.top": _logprobs(lambda tokens: tokens[0].update(top_logprobs=[])),
    "logprobs.values": _logprobs(lambda tokens: tokens[0].update(logprob=0.5)),
    "logprobs.streamed": _choices(lambda choice: choice.update(logprobs=None)),
    "cut.not_complete": c.setting(finish="calls"),
}


def _start(change):
    return c.each_event(lambda event: change(event["message"]), "message_start")


def _block_start(change):
    return c.each_event(lambda event: change(event["content_block"]), "content_block_start")


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


def _tool_use(**changes):
    """Whole answers have other calls than the gateway's writer would write."""
    return _parts("content", "tool_use", lambda block: block.update(changes))


def _stop_reason(value):
    return c.body(lambda made: made.update(stop_reason=value))


CUT_CALL = {"type": "tool_use", "id": "toolu_cut", "name": "save_text", "input": {}}
MESSAGES = {
    "calls.arguments_json": _tool_use(input="{'room': 'kitchen'}"),
    "calls.unstrict_json": _tool_use(input="room: kitchen"),
    "calls.id": _tool_use(id=""),
    "calls.ids_fresh": _tool_use(id="toolu_always"),
    "parallel.ids": _tool_use(id="toolu_always"),
    "calls.finish": _stop_reason("end_turn"),
    "choice.auto_finish": _stop_reason("end_turn"),
    "stream.calls_same_finish": c.each_event(
        lambda event: event["delta"].update(stop_reason="end_turn"), "message_delta"
    ),
    "cut.not_complete": c.body(lambda made: made["content"].append(CUT_CALL)),
    "body.object": c.body(lambda made: made.update(type="completion")),
    "body.stop_reason": _stop_reason("length"),
    "body.stop_sequence_null": c.body(lambda made: made.update(stop_sequence="x")),
    "body.tool_use": _parts(
        "content", "tool_use", lambda block: block.update(input='{"room": "hall"}')
    ),
    "body.text_blocks": c.body(
        lambda made: made["content"].insert(0, {"type": "text", "text": ""})
    ),
    "reasoning.signature": _parts("content", "thinking", lambda block: block.update(signature="")),
    "reasoning.first": c.body(lambda made: made["content"].reverse()),
    "stop.sequence": c.reply(_other_sequence),
    "prefill.accepted": c.text_before("The city is"),
    "events.names": c.events(lambda sent: [("", data) for _, data in sent]),
    "events.begin": c.events(lambda sent: [sent[0], *sent]),
    "events.begin_empty": _start(lambda message: message.update(stop_reason="end_turn")),
    "events.begin_usage": _start(
        lambda message: message.update(usage={"input_tokens": 0, "output_tokens": 0})
    ),
    "events.end": c.events(_block_last),
    "events.stop_reason": c.each_event(
        lambda event: event["delta"].update(stop_reason=None), "message_delta"
    ),
    "events.usage": c.each_event(lambda event: event.pop("usage"), "message_delta"),
    "events.indices": c.each_event(_other_indices),
    "events.no_overlap": c.events(_overlap),
    "events.blocks_end": c.without("content_block_stop"),
    "events.empty_at_first": _block_start(lambda block: block.update(input={"room": "hall"})),
    "events.delta_types": c.each_event(_text_delta, "content_block_delta"),
    "events.tool_use_head": _block_start(lambda block: block.update(id="")),
    "events.input_joined": c.stream_fragments(lambda text: text[:-1]),
    "events.cut_reason": c.each_event(
        lambda event: event["delta"].update(stop_reason="tool_use"), "message_delta"
    ),
    "events.signature": c.events(_no_signature),
}


def _event(kind, change):
    return c.each_event(change, f"response.{kind}")


def _last(change):
    """Changes the response of the last event."""

    def apply(sent):
        name, data = sent[-1]
        response = {**data["response"]}
        change(response)
        return [*sent[:-1], (name, {**data, "response": response})]

    return c.events(apply)


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


def _replaced(sent, kind, change):
    """Changes a copy of the item of an event, so that the last event keeps its own."""
    made = []
    for name, data in sent:
        if name == f"response.{kind}":
            item = {**data["item"]}
            change(item)
            data = {**data, "item": item}
        made.append((name, data))
    return made


def _item(kind, change):
    return c.events(lambda sent: _replaced(sent, kind, change))


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


def _logprobs_responses(change):
    return c.body(lambda made: change(made["output"][0]["content"][0]["logprobs"]))


RESPONSES = {
    "calls.finish": c.body(lambda made: made.update(status="in_progress")),
    "choice.auto_finish": c.body(lambda made: made.update(status="in_progress")),
    "stream.calls_same_finish": _last(lambda response: response.update(status="in_progress")),
    "cut.same_finish": _last(lambda response: response.update(status="in_progress")),
    "body.object": c.body(lambda made: made.update(object="chat.completion")),
    "body.status": c.body(lambda made: made.update(incomplete_details=None)),
    "body.error_null": c.body(lambda made: made.pop("error")),
    "body.message_item": _parts(
        "output", "message", lambda item: item["content"][0].pop("annotations")
    ),
    "body.call_item": _parts("output", "function_call", lambda item: item.pop("status")),
    "body.item_ids": _parts("output", "function_call", lambda item: item.update(id=None)),
    "body.cut_item": _parts(
        "output", "function_call", lambda item: item.update(status="completed")
    ),
    "custom.regex": c.call(text="tomorrow"),
    "events.names": c.events(lambda sent: [("", data) for _, data in sent]),
    "events.sequence": c.events(_gap),
    "events.begin": c.events(_no_progress),
    "events.created": _event("created", lambda event: event["response"].update(status="queued")),
    "events.same_response": _last(lambda response: response.update(id="resp_other")),
    "events.end": c.events(_two_ends),
    "events.end_status": c.events(_renamed_end),
    "events.items_numbered": _event(
        "output_item.added", lambda e: e.update(output_index=e["output_index"] + 1)
    ),
    "events.item_before_delta": _event("output_text.delta", lambda e: e.update(item_id="other")),
    "events.parts": c.without("response.content_part.done"),
    "events.text_done": _event("output_text.done", lambda e: e.update(text=e["text"] + ".")),
    "events.arguments_done": _event(
        "function_call_arguments.done", lambda e: e.update(arguments="{}")
    ),
    "events.item_done": _item("output_item.added", lambda item: item.update(call_id="call_other")),
    "events.item_status": _item("output_item.added", lambda item: item.update(status="completed")),
    "events.final_items": _last(lambda response: response.update(output=[])),
    "events.call_order": c.events(_overlap_responses),
    "events.call_empty_at_first": _item(
        "output_item.added", lambda item: item.update(arguments="{")
    ),
    "events.cut_not_done": c.events(_done_though_cut),
    "events.usage": _last(lambda response: response.pop("usage")),
    "echo.tools": c.body(lambda made: made.update(tools=[])),
    "state.retrieve": _state(1, {"id": "resp_other", "output": []}),
    "state.input_items": _state(2, {"object": "list", "data": []}),
    "state.continue": Fault(asked=_forgets),
    "state.delete": _state(3, {"deleted": False}),
    "state.deleted": _state(4, {"id": "resp_back"}),
    "logprobs.text": _logprobs_responses(lambda tokens: tokens.pop(0)),
    "logprobs.top": _logprobs_responses(lambda tokens: tokens[0].update(top_logprobs=[])),
    "logprobs.values": _logprobs_responses(lambda tokens: tokens[0].update(logprob=0.5)),
    "logprobs.streamed": _event("output_text.delta", lambda e: e.update(logprobs=[])),
}


def echo(name):
    return c.body(lambda made: made.update({name: "something else"}))
