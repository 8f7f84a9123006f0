"""Cases of messages and of the model name."""

from bench.surface.cases import USER, Body, Case, Effect, plain, rejected


def cases() -> list[Case]:
    def with_messages(*messages: Body) -> Body:
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
    works: Effect = lambda _, response: bool(response.text)  # noqa: E731
    return [
        Case(
            "messages",
            "role developer",
            with_messages({"role": "developer", "content": "Be short."}, user),
            works,
        ),
        Case(
            "messages",
            "content as text parts",
            with_messages({"role": "user", "content": [{"type": "text", "text": "hi"}]}),
            works,
        ),
        Case(
            "messages",
            "a refusal passed back",
            with_messages(user, {"role": "assistant", "content": None, "refusal": "No."}, user),
            works,
        ),
        Case(
            "messages",
            "reasoning passed back",
            with_messages(
                user, {"role": "assistant", "content": "Hm.", "reasoning_content": "So."}, user
            ),
            works,
        ),
        Case("messages", "a tool loop", with_messages(*loop), works),
        Case(
            "messages",
            "arguments as an object",
            with_messages(loop[0], {**loop[1], "tool_calls": [as_object]}, loop[2]),
            works,
        ),
        Case("messages", "names", with_messages({**user, "name": "ann"}), works),
        *rejected(
            "messages",
            ("none", plain(messages=[])),
            ("a string", plain(messages="hi")),
            ("a number as content", with_messages({"role": "user", "content": 5})),
            ("no content", with_messages({"role": "user"})),
            (
                "an unknown role",
                with_messages({"role": "stranger", "content": "hi"}),
            ),
            (
                "truncated arguments",
                with_messages(loop[0], {**loop[1], "tool_calls": [cut]}, loop[2]),
            ),
            (
                "an image for a text model",
                with_messages({"role": "user", "content": [image]}),
            ),
            (
                "a part of an unknown type",
                with_messages({"role": "user", "content": [{"type": "smell"}]}),
            ),
            (
                "a prompt that is too long",
                with_messages({"role": "user", "content": "word " * 9000}),
            ),
        ),
        Case("model", "the served model", plain()),
        *rejected("model", ("an unknown model", plain(model="nope")), ("a number", plain(model=3))),
    ]
