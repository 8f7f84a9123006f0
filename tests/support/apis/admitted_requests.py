"""Chat completion requests, parsed."""

from toolgate_proxy.api.chat_completions.request import parse_request

HELLO = [{"role": "user", "content": "Hello"}]


def admitted(stream=False, **params):
    body = {"model": "tiny", "messages": HELLO, "stream": stream, **params}
    return parse_request(body, model="tiny")
