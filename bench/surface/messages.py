"""Cases of messages, and of the model that they are for."""

from bench.surface.cases import USER, Body, Case, Effect, plain, refused


def cases() -> list[Case]:
    def said(*messages: Body) -> Body:
        return plain(messages=list(messages))

    user: Body = USER[0]
    made = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "book", "arguments": '{"guests": 2}'},
    }
    loop = [
        user,
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": "call_1", "content": "ok"},
    ]
    as_object = {**made, "function": {"name": "book", "arguments": {"guests": 2}}}
    cut = {**made, "function": {"name": "book", "arguments": '{"gue'}}
    image = {"type": "image_url", "image_url": {"url": "http://169.254.169.254/latest"}}
    works: Effect = lambda _, seen: bool(seen.text)  # noqa: E731
    return [
        Case(
            "messages",
            "role developer",
            said({"role": "developer", "content": "Be short."}, user),
            works,
        ),
        Case(
            "messages",
            "content as text parts",
            said({"role": "user", "content": [{"type": "text", "text": "hi"}]}),
            works,
        ),
        Case(
            "messages",
            "a refusal passed back",
            said(user, {"role": "assistant", "content": None, "refusal": "No."}, user),
            works,
        ),
        Case(
            "messages",
            "reasoning passed back",
            said(user, {"role": "assistant", "content": "Hm.", "reasoning_content": "So."}, user),
            works,
        ),
        Case("messages", "a tool loop", said(*loop), works),
        Case(
            "messages",
            "arguments as an object",
            said(loop[0], {**loop[1], "tool_calls": [as_object]}, loop[2]),
            works,
        ),
        Case("messages", "names", said({**user, "name": "ann"}), works),
        *refused(
            "messages",
            ("none", plain(messages=[])),
            ("a string", plain(messages="hi")),
            ("content that is a number", said({"role": "user", "content": 5})),
            ("no content", said({"role": "user"})),
            ("a role that the template does not know", said({"role": "stranger", "content": "hi"})),
            ("arguments that were cut", said(loop[0], {**loop[1], "tool_calls": [cut]}, loop[2])),
            ("an image for a model that cannot see", said({"role": "user", "content": [image]})),
            ("a part of an unknown type", said({"role": "user", "content": [{"type": "smell"}]})),
            ("a prompt that does not fit", said({"role": "user", "content": "word " * 9000})),
        ),
        Case("model", "the served one", plain()),
        *refused("model", ("an unknown one", plain(model="nope")), ("a number", plain(model=3))),
    ]
