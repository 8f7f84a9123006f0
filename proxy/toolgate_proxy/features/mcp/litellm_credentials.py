"""Credentials that clients send for MCP servers: `headers` and `authorization` of an entry of
`tools`, `authorization_token` of one of `mcp_servers`, and headers of the request:
`x-mcp-SERVER-HEADER`, those in `extra_headers` of a server, and `x-mcp-auth`, or what
`mcp_client_side_auth_header_name` says instead.

From the body on, a request has placeholders instead of them, so that hooks, log events, errors and
stored data never have them; nor have hooks and log events the headers. They go to LiteLLM's
manager, for the servers that the headers, the entry or the configuration name. A header with a key
of the gateway goes to none: `Authorization` is for servers only beside `x-litellm-api-key`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolgate_core.errors import InvalidRequest

from ...keys.access import KEY_HEADERS, Header, key_in, key_of
from ...litellm_host import auth
from ...litellm_host.callbacks.request_data import SECRET_HEADERS
from ...litellm_host.proxy_server import litellm_proxy
from ...litellm_host.routing.long_term import module

MCP_SERVER = "litellm.proxy.mcp_server"
MCPRequestHandler = module(f"{MCP_SERVER}.auth.user_api_key_auth_mcp").MCPRequestHandler
upstream_credential_headers = module(f"{MCP_SERVER}.utils").upstream_credential_headers
logging_safe_mcp_headers = module(f"{MCP_SERVER}.utils").logging_safe_mcp_headers
MCP = "mcp"
"""Type of the entries of `tools`."""
HEADERS = "headers"
AUTHORIZATION = "authorization"
TOKENS = (AUTHORIZATION, "authorization_token")
ALL_SERVERS = "litellm_proxy"
"""The address that names all servers that the key may use."""
OF_SERVER = re.compile(r"x-mcp-([^-]+)-(.+)", re.IGNORECASE)
"""LiteLLM's names of headers for one server."""
PREFIX = b"x-mcp-"
"""What names of headers with credentials begin with, whatever is configured."""
HOSTS = (b"host", b"x-forwarded-host")
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
HEADER_VALUE = re.compile(r"[\x20-\x7e]{0,16000}")
"""Others would be repeated in errors of HTTP clients."""
OTHER_KEY = {KEY_HEADERS[0].decode(): "[hidden]"}
"""Tells LiteLLM's manager to hand `authorization` on: it is not the key of the gateway."""
PLACES = (("tools", MCP), ("mcp_servers", "url"))
"""Where a body has entries, and their types."""
EXTRA = "extra_body"
Body = dict[str, Any]


@dataclass(frozen=True)
class EntrySecrets:
    """The credentials of one entry, as LiteLLM's manager takes them."""

    server_headers: dict[str, dict[str, str]] | None = None
    """By the alias of the server."""
    forwarded: dict[str, str] | None = None
    """Headers that a server gets if its `extra_headers` name them."""
    token: str | None = None
    """For servers that have none of their own in `server_headers`."""


@dataclass
class McpCredentials:
    """The credentials for MCP servers that came with one request."""

    _values: dict[str, str] = field(default_factory=dict, repr=False)
    """By placeholder."""
    _of_servers: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)
    """Headers of the request, by the alias of the server."""
    _forwarded: dict[str, str] = field(default_factory=dict, repr=False)
    """Headers of the request that the configuration of a server names."""
    _token: str | None = field(default=None, repr=False)
    _hosts: frozenset[str] = frozenset({ALL_SERVERS})
    """Names of the gateway itself, by which clients address its servers."""

    def read_headers(self, headers: Collection[Header]) -> None:
        """Take what the headers of a request have. Raise InvalidRequest, which repeats no value."""
        named = [value.decode("latin-1").lower() for name, value in headers if name in HOSTS]
        self._hosts |= {_host(os.environ.get("PROXY_BASE_URL", "")), *named}
        forwarded = _forwarded_names(headers)
        taken = credential_headers(headers) | forwarded
        for raw, value in headers if taken else ():
            name, text = raw.decode("latin-1"), value.decode("latin-1")
            if name not in taken:
                continue
            if not HEADER_VALUE.fullmatch(text):
                raise _wrong(name, "a header of printable ASCII characters")
            if name in forwarded:
                self._forwarded[name] = text
            if name == MCPRequestHandler.get_mcp_client_side_auth_header_name().lower():
                self._token = text
            elif (match := OF_SERVER.fullmatch(name)) is not None:
                self._of_servers.setdefault(match[1], {})[_proper(match[2])] = text

    def hide(self, body: Mapping[str, Any]) -> Body:
        """Return the body with placeholders. Raise InvalidRequest, which repeats no value."""
        hidden = _with_entries(body, self._hidden_entry)
        if isinstance(extra := body.get(EXTRA), dict):
            hidden[EXTRA] = _with_entries(extra, self._hidden_entry)
        return hidden

    def reveal(self, body: Mapping[str, Any]) -> Body:
        """Return a body as the client sent it, for LiteLLM's handler."""
        return _with_entries(body, lambda entry, _: {**entry, **self._given(entry)})

    def names_gateway(self, entry: Mapping[str, Any]) -> bool:
        """Return whether the address of an entry in OpenAI's form is one of the gateway's. LiteLLM
        takes the last segment of any address for the name of a server."""
        return _host(str(entry.get("server_url", ""))) in self._hosts

    def of_entry(self, entry: Mapping[str, Any]) -> EntrySecrets:
        """Return the credentials of an entry in OpenAI's form."""
        fields = self._given(entry)
        headers: dict[str, str] = fields.get(HEADERS, {})
        of_servers = {alias: {**sent} for alias, sent in self._of_servers.items()}
        for name, value in headers.items():
            if (match := OF_SERVER.fullmatch(name)) is not None:
                of_servers.setdefault(match[1].lower(), {})[_proper(match[2])] = value
        url = str(entry.get("server_url", ""))
        named = url.rpartition("/")[2].lower()
        for name in TOKENS:
            if token := fields.get(name):
                value = f"Bearer {token.removeprefix('Bearer ')}"
                of_servers.setdefault(named, {})["Authorization"] = value
        token = None if url == ALL_SERVERS else self._token
        forwarded = {**self._forwarded, **_unlogged(headers)}
        if AUTHORIZATION in forwarded:
            forwarded |= OTHER_KEY
        return EntrySecrets(of_servers or None, forwarded or None, token)

    def _hidden_entry(self, entry: Body, path: str) -> Body:
        hidden = dict(entry)
        if (headers := entry.get(HEADERS)) is not None:
            hidden[HEADERS] = self._hidden_headers(headers, f"{path}.{HEADERS}")
        for name in TOKENS:
            if (token := entry.get(name)) is None:
                continue
            if not isinstance(token, str) or not HEADER_VALUE.fullmatch(token):
                raise _wrong(f"{path}.{name}", "a string of printable ASCII characters")
            if token and ALL_SERVERS in (entry.get("server_url"), entry.get("url")):
                raise InvalidRequest(
                    f"{path}.{name}: the entry names no server that could get it. Write "
                    f"{ALL_SERVERS}/mcp/NAME, with the name of the server.",
                    param=f"{path}.{name}",
                )
            hidden[name] = self._placeholder(token)
        return hidden

    def _hidden_headers(self, headers: object, path: str) -> dict[str, str]:
        if not isinstance(headers, dict) or not all(map(HEADER_NAME.fullmatch, headers)):
            raise _wrong(path, "an object with names of HTTP headers")
        for value in headers.values():
            if not isinstance(value, str) or not HEADER_VALUE.fullmatch(value):
                raise _wrong(path, "an object with texts of printable ASCII characters")
        return {name: self._placeholder(value) for name, value in headers.items()}

    def _placeholder(self, value: str) -> str:
        name = f"[hidden {len(self._values)}]"
        self._values[name] = value
        return name

    def _given(self, entry: Mapping[str, Any]) -> Body:
        """Return the fields of an entry that were hidden."""
        known, fields = self._values, {}
        if isinstance(headers := entry.get(HEADERS), dict):
            fields[HEADERS] = {name: known[each] for name, each in headers.items() if each in known}
        return fields | {name: known[entry[name]] for name in TOKENS if entry.get(name) in known}


def _host(url: str) -> str:
    return url.split("://", 1)[-1].split("/", 1)[0].lower()


def servers() -> Collection[Any]:
    """Return the servers that LiteLLM knows."""
    manager = module(f"{MCP_SERVER}.mcp_server_manager").global_mcp_server_manager
    known: Mapping[str, Any] = manager.get_registry()
    return known.values()


def credential_headers(headers: Collection[Header]) -> frozenset[str]:
    """Return the names of a request's headers with credentials for MCP servers."""
    named = headers if servers() else [each for each in headers if each[0].startswith(PREFIX)]
    names = [name.decode("latin-1") for name, _ in named]
    if not names:
        return frozenset()
    # LiteLLM hides `authorization` only from log events.
    hidden = {AUTHORIZATION} & _forwarded_names(headers)
    secrets: frozenset[str] = upstream_credential_headers(names)
    return secrets - _key_headers(headers) | hidden


SECRET_HEADERS.append(credential_headers)


def _forwarded_names(headers: Iterable[Header]) -> frozenset[str]:
    """Return the names of the headers that servers get by their configuration."""
    named = frozenset(name.lower() for server in servers() for name in server.extra_headers or ())
    return named - _key_headers(headers) if named else named


def _key_headers(headers: Iterable[Header]) -> frozenset[str]:
    """Return the names of the headers in which a request may have a key of the gateway."""
    known = frozenset(name.decode() for name in KEY_HEADERS)
    configured = litellm_proxy().general_settings.get("litellm_key_header_name")
    if configured or litellm_proxy().user_custom_auth not in (None, auth.authenticate):
        return known | {str(configured).lower()}  # the others may be read, too
    key = key_of(headers)
    pairs = [(name.decode(), key_in(value)) for name, value in headers if name in KEY_HEADERS]
    sent = [(name, text) for name, text in pairs if text]
    keys = {name for name, text in sent if text == key or _is_key(text)}
    return known - ({name for name, _ in sent} - keys)


def _is_key(sent: str) -> bool:
    """Return whether it may be a key of the gateway."""
    is_litellms = litellm_proxy().user_custom_auth is None and sent.startswith(auth.KEY_PREFIX)
    return is_litellms or auth.is_key(sent)


def _proper(header: str) -> str:
    """Return the name of a header as LiteLLM looks for it."""
    name = header.lower()
    return "Authorization" if name == AUTHORIZATION else name


def entries_of(body: Mapping[str, Any]) -> Iterator[tuple[str, int, Body]]:
    """Yield the entries of a body that name MCP servers, with the parameter and the place in it."""
    for name, kind in PLACES:
        entries = body.get(name)
        for at, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, dict) and entry.get("type") == kind:
                yield name, at, entry


def _with_entries(body: Mapping[str, Any], change: Callable[[Body, str], Body]) -> Body:
    """Return the body with its entries as `change` makes them of an entry and its path."""
    changed = dict(body)
    for name, at, entry in entries_of(body):
        if changed[name] is body[name]:
            changed[name] = [*body[name]]
        changed[name][at] = change(entry, f"{name}[{at}]")
    return changed


def _unlogged(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers, by lower-case names, that LiteLLM's log events would not show."""
    logged = {name.lower(): value for name, value in logging_safe_mcp_headers(headers).items()}
    named = {name.lower(): value for name, value in headers.items()}
    return {name: value for name, value in named.items() if logged.get(name) != value}


def _wrong(path: str, expected: str) -> InvalidRequest:
    return InvalidRequest(f"{path!r} must be {expected}.", param=path)
