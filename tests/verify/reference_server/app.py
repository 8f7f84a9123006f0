"""The server: an ASGI application."""

import json

from tests.verify.faults.changes import Fault
from toolgate_core.errors import (
    InvalidKey,
    InvalidRequest,
    ModelNotFound,
    PreviousResponseNotFound,
    ResponseNotFound,
    ToolgateError,
)
from toolgate_verify.engine.client import SCENARIO
from toolgate_verify.terms import Api

from . import written
from .asked import SURFACES, asked
from .reply import prompt_tokens, reply_to

MODEL, KEY = "reference", "sk-reference"
PATHS = {
    "/v1/chat/completions": Api.CHAT,
    "/v1/responses": Api.RESPONSES,
    "/v1/messages": Api.MESSAGES,
}
COUNTS = {"/v1/responses/input_tokens": Api.RESPONSES, "/v1/messages/count_tokens": Api.MESSAGES}
JSON, SSE = "application/json", "text/event-stream"


class Reply(Exception):
    """A response: status, content type, body."""

    def __init__(self, status, body, kind=JSON):
        self.status, self.kind = status, kind
        self.data = body if isinstance(body, bytes) else json.dumps(body).encode()


def refused(api, error, fault=None):
    body = SURFACES[api].error(error, "req_1")
    return Reply(error.status, body if fault is None else fault.error(body))


class ReferenceServer:
    """Applies the fault to requests of its scenario only."""

    def __init__(self, fault=None, scenario=""):
        self.fault, self.scenario = fault or Fault(), scenario
        self.stored = {}
        """Requests and responses by ID."""
        self.requests = 0

    async def __call__(self, scope, receive, send):
        content = b""
        while True:
            message = await receive()
            content += message.get("body", b"")
            if not message.get("more_body"):
                break
        fault = self.fault if scope["extensions"].get(SCENARIO) == self.scenario else Fault()
        self.requests += 1
        answer = fault.sent(self._answer(scope, content, fault), self.requests)
        headers = [(b"content-type", answer.kind.encode())]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.data})

    def _answer(self, scope, content, fault):
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        path = scope["path"]
        api = PATHS.get(path) or COUNTS.get(path) or Api.RESPONSES
        key = headers.get("authorization", "")
        if not key or (not fault.accepts and key != f"Bearer {KEY}"):
            return refused(api, InvalidKey("The key is not valid."))
        if path not in PATHS and path not in COUNTS:
            return fault.state(self, self._state(scope["method"], path))
        try:
            body = json.loads(content)
        except ValueError:
            if not fault.accepts:
                return refused(api, InvalidRequest("The body is not JSON."))
            return Reply(200, {})
        if path in COUNTS:
            body |= {"max_tokens": 1} if api == Api.MESSAGES else {}
            count = prompt_tokens(asked(api, body).prompt)
            return Reply(200, fault.body({"input_tokens": count}))
        try:
            request = self._read(api, body)
        except ToolgateError as error:
            return Reply(200, {}) if fault.accepts else refused(api, error, fault)
        return self._generate(request, fault)

    def _read(self, api, body):
        if body.get("model") != MODEL:
            raise ModelNotFound("There is no such model.")
        if body.get("previous_response_id", None) not in (None, *self.stored):
            raise PreviousResponseNotFound("It is not stored.", param="previous_response_id")
        return asked(api, body)

    def _generate(self, request, fault):
        body = request.body
        previous = self.stored.get(body.get("previous_response_id", ""))
        if previous is not None:
            request.prompt += asked(request.api, previous[0]).prompt
        fault.asked(request)
        reply = reply_to(request)
        fault.reply(reply, request)
        if not request.stream:
            made = fault.body(written.whole(request, reply))
            if body.get("store"):
                self.stored[reply.id] = (body, made)
            return Reply(200, made)
        lines = []
        for name, data in fault.events([*written.events(request, reply)]):
            text = data if isinstance(data, str) else json.dumps(data)
            lines.append(f"event: {name}\ndata: {text}\n\n" if name else f"data: {text}\n\n")
        return Reply(200, "".join(lines).encode("utf-8", "surrogatepass"), SSE)

    def _state(self, method, path):
        identity, _, more = path.removeprefix("/v1/responses/").partition("/")
        if identity not in self.stored:
            return refused(Api.RESPONSES, ResponseNotFound("There is no such response."))
        body, response = self.stored[identity]
        if method == "DELETE":
            del self.stored[identity]
            return Reply(200, {"id": identity, "object": "response", "deleted": True})
        if more == "input_items":
            return Reply(200, {"object": "list", "data": body["input"]})
        return Reply(200, response)
