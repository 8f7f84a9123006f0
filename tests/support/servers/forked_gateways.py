"""The modules of a gateway. The process that gateways are forked from imports this one."""

from contextlib import suppress
from importlib import import_module

from toolgate_core.host_probe import importing

with importing():
    for name in (
        "tests.support.servers.unused_packages",  # first: gateways run without them
        "litellm.proxy.proxy_server",
        "toolgate_proxy.ops.admin.routes",
        "toolgate_proxy.ops.cli",
        "toolgate_proxy.app",
        "toolgate_proxy.ops.proxy",
        "toolgate_proxy.litellm_host.private_names",
    ):
        import_module(name)

with suppress(ModuleNotFoundError):  # LiteLLM before 1.109
    # LiteLLM is about to delete these members of its router, which in 1.109 reads the last two.
    members = import_module("litellm.router_deprecated").DeprecatedRouterMembers
    kept = ("__", "kubernetes_pod_discovery", "_get_all_deployments")
    for name in [each for each in vars(members) if not each.startswith(kept)]:
        delattr(members, name)
