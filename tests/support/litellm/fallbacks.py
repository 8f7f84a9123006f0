"""A model of ours that fails, and the models to which it falls back."""

from tests.support.litellm.own_route import PATHS, body_of, ours
from tests.support.litellm.router import foreign, row, use
from tests.support.servers.fake_backend import KEY
from tests.support.servers.script import Script
from toolgate_proxy.ops.stack.processes import free_port

BROKEN = Script(("x",), error_status=500, error={"message": "It broke.", "code": "backend_failed"})


def naming(model):
    """Fallbacks of a request for `tiny` that name a model, in each form, also in mixed ones."""
    given, both = {"model": model}, {"tiny": [{"model": model}], "model": "tiny"}
    return {
        "a name": [model],
        "an object": [given],
        "a list": [{"tiny": [model]}],
        "a list of objects": [{"tiny": [given]}],
        "a list for all": [{"*": ["tiny", given]}],
        "a name beside a list": [{"tiny": [given]}, "tiny"],
        "a list in an object": [both],
        "a list in an object beside a name": [both, "tiny"],
        "inside of a fallback": [{"model": "tiny", "fallbacks": [model]}],
    }


TINY = {"models": ("tiny",)}
LIMITED = [("large", TINY), ("hosted", TINY), ("hosted", {"enforced_only": True})]


def configure(gateway, large, monkeypatch, **settings):
    """No backend serves the model `down`, and another provider the model `hosted`."""
    down = f"http://127.0.0.1:{free_port()}"
    rows = [
        ours(gateway.backend),
        ours(large, "large"),
        row("down", group="down", api_base=down, api_key=KEY),
        foreign("hosted"),
    ]
    use(monkeypatch, *rows, **settings)


async def ask(gateway, api, **params):
    key = params.pop("key", None)
    more = {} if key is None else {"key": key}
    return await gateway.ask(body_of(api, **params), path=PATHS[api], **more)


def shown(response):
    return b"".join(response.bodies).decode()
