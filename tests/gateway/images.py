"""Images made for tests, a server of them on this machine, conversations with images in the form of
each API, and a model that accepts images behind a gateway."""

import base64
import random
import uuid
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from io import BytesIO
from threading import Event

from PIL import Image

from tests.models import vision_model
from tests.support.servers import gateway_process
from tests.support.servers.loopback import Handler, running
from tests.support.servers.virtual_keys import key_file
from toolgate_proxy.ops.stack.processes import free_port
from toolgate_verify.asking import request
from toolgate_verify.asking.ask import Ask, Assistant, CallTurn, ToolResult, User
from toolgate_verify.terms import Api

from .servers import FEW_PLACES, adapters, await_backend, vllm

MODEL = "tiny-vision"
TEAMS = ("blue", "green")
MAX_IMAGES = 4
"""Images in one prompt."""
MAX_PIXELS = 1_000_000
MAX_BYTES = 200_000
"""Maximum size of one image at the gateway, in bytes."""
FORMATS = ("PNG", "JPEG", "GIF", "WEBP")


# --- images ---


def picture(color, form="PNG", mode="RGB", side=40):
    file = BytesIO()
    Image.new("RGB", (side, side), color).convert(mode).save(file, form)
    return file.getvalue()


def noise(side):
    file = BytesIO()
    data = random.Random(0).randbytes(3 * side * side)
    Image.frombytes("RGB", (side, side), data).save(file, "PNG")
    return file.getvalue()


def data_uri(data, form="png"):
    return f"data:image/{form.lower()};base64,{base64.b64encode(data).decode()}"


def damaged(data, rng):
    """With bytes changed, removed or cut off, but not the first 12, by which the gateway recognises
    the format."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 2, 5))):
        at = rng.randrange(12, max(len(made), 13))
        match rng.randrange(3):
            case 0:
                made[at : at + rng.choice((1, 4))] = rng.randbytes(rng.choice((1, 4)))
            case 1:
                del made[at : at + rng.randrange(1, 20)]
            case _:
                del made[at:]
    return bytes(made)


RED, BLUE = (data_uri(picture(color)) for color in ("red", "blue"))


class ImageServer(ThreadingHTTPServer):
    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        self.asked = []

    def url(self, name):
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class _Handler(Handler):
    server: ImageServer

    def do_GET(self):
        name = self.path.removeprefix("/")
        self.server.asked.append(name)
        data = self.server.files.get(name)
        self.answer(404 if data is None else 200, data or b"", "application/octet-stream")


@contextmanager
def image_server(files):
    server = ImageServer(files)
    with running(server):
        yield server


# --- conversations ---

PLACES = ("user", "result")
"""Where images are: in the user's message, or in the result of a call that follows."""
PATHS = {  # of the second image
    "user": {
        Api.CHAT: "messages[0].content[2].image_url",
        Api.RESPONSES: "input[0].content[2].image_url",
        Api.MESSAGES: "messages[0].content[2].source",
    },
    "result": {
        Api.CHAT: "messages[2].content[2].image_url",
        Api.RESPONSES: "input[2].output[2].image_url",
        Api.MESSAGES: "messages[2].content[0].content[2].source",
    },
}


def body(api, images=(), *, place="user", text="What is it?", before=False, tools=(), **more):
    """A conversation with images, which are after the text or `before` it. `more`: fields of `Ask`.
    With tools, a call is required."""
    turns = [User(text)]
    if place == "result":
        call_id = ("toolu_" if api == Api.MESSAGES else "call_") + "1" * 24
        call = CallTurn(call_id, "look", {})
        turns += [Assistant(calls=(call,)), ToolResult(call_id, "Here", True)]
    if tools:
        more |= {"tools": tuple(tools), "choice": "required"}
    made = request(api, Ask(tuple(turns), strict=None, reasoning=None, **more)).body
    assert made is not None
    turn = made["input" if api == Api.RESPONSES else "messages"][-1]
    if api == Api.MESSAGES and place == "result":
        turn = turn["content"][0]
    field = "output" if "output" in turn else "content"
    kind = "input_text" if api == Api.RESPONSES else "text"
    texts = [{"type": kind, "text": text}] if isinstance(turn[field], str) else turn[field]
    parts = [_part(api, each) for each in images]
    turn[field] = [*parts, *texts] if before else [*texts, *parts]
    in_messages = api == Api.MESSAGES
    off = {"thinking": {"type": "disabled"}} if in_messages else {"enable_thinking": False}
    return {"model": MODEL, **made, **off}


def _part(api, url):
    if api == Api.CHAT:
        return {"type": "image_url", "image_url": {"url": url}}
    if api == Api.RESPONSES:
        return {"type": "input_image", "image_url": url}
    if not url.startswith("data:"):
        return {"type": "image", "source": {"type": "url", "url": url}}
    kind, data = url.removeprefix("data:").split(";base64,")
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


# --- the servers ---


def loosen_images():
    """Replace the check of the gateway that forbids images from this machine, and shorten them."""
    from toolgate_proxy import public_fetch
    from toolgate_proxy.chat import images

    public_fetch.is_public = lambda address: True
    images.MAX_BYTES = MAX_BYTES


@contextmanager
def vision_gateway(logs):
    """Yields the gateway, and the key of each team in TEAMS."""
    url, key = f"http://127.0.0.1:{(port := free_port())}", uuid.uuid4().hex
    flags = ["--served-model-name", MODEL, "--max-num-seqs", str(FEW_PLACES)]
    flags += ["--limit-mm-per-prompt", f'{{"image": {MAX_IMAGES}}}']
    keys = key_file(logs / "keys.yaml", **{team: team for team in TEAMS})
    more = {"VLLM_MAX_IMAGE_PIXELS": str(MAX_PIXELS)}
    backend = vllm("vision", vision_model(), port, key, adapters()[0], flags, logs, **more)
    try:
        await_backend(backend, url, key, Event())
        with gateway_process.serving(
            ["--model", f"{MODEL}={MODEL}@{url}"],
            url,
            logs / "gateway.log",
            before=loosen_images,
            TOOLGATE_BACKEND_KEY=key,
            TOOLGATE_KEYS_FILE=str(logs / "keys.yaml"),
        ) as gateway:
            yield gateway, keys
        backend.check()
    finally:
        backend.stop()
