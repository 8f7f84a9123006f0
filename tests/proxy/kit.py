"""Rows of tests in YAML files, and a gateway that lists models, for the commands that ask one."""

import json
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import yaml

from tests.support.servers.loopback import Handler, running


def beside(module):
    """The YAML file beside a module that has its name."""
    return yaml.safe_load(Path(module).with_suffix(".yaml").read_text(encoding="utf-8"))


class ListingGateway(ThreadingHTTPServer):
    """`GET /v1/models` lists `names`, each model with the fields in `shown`. Keys other than `key`
    get a 401."""

    key, names, shown = "sk-of-the-gateway", ("m",), {}

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Listing)
        self.paths = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Listing(Handler):
    def do_GET(self):
        gateway = self.server
        gateway.paths.append(self.path)
        allowed = self.headers["Authorization"] == f"Bearer {gateway.key}"
        path, _, name = self.path.partition("?")[0].partition("/v1/models")
        models = [{"id": name, **gateway.shown} for name in gateway.names]
        one = [model for model in models if f"/{model['id']}" == unquote(name)]
        found = allowed and not path and (not name or bool(one))
        answer = one[0] if one else {"data": models}
        self.answer(200 if found else 401, json.dumps(answer).encode())


@contextmanager
def listing():
    gateway = ListingGateway()
    with running(gateway):
        yield gateway
