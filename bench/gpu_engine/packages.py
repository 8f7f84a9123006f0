"""What is packed for a bare machine, and what is there. This module imports no packages."""

ARCHIVE = "packed.tar.xz"
SITE, MODEL = "site", "model"
"""Folders in it: of packages, and of the model."""


def _words(text: str) -> list[str]:
    return text.split()


CARRIED = _words("""
annotated-types apache-tvm-ffi cachetools cbor2 compressed-tensors distro fastapi jiter
jsonschema-rs lark llguidance loguru msgspec openai oss-harmony partial-json-parser pybase64
pydantic pydantic-core pydantic-settings python-dotenv pyzmq setproctitle sniffio starlette
xgrammar
""")
"""Packages, beside vLLM, that its engine and Toolgate's plug-in import."""
PROVIDED = _words("""
aiohappyeyeballs aiohttp aiosignal annotated-doc anyio attrs certifi charset-normalizer click
cloudpickle einops filelock frozenlist fsspec h11 hf-xet httpcore httpx huggingface-hub idna jinja2
markdown-it-py markupsafe mdurl mpmath multidict networkx numpy packaging pillow prometheus-client
propcache protobuf psutil py-cpuinfo pygments pyyaml regex requests rich safetensors scipy
sentencepiece setuptools shellingham six sympy tiktoken tokenizers torch tqdm transformers triton
typer typing-extensions typing-inspection urllib3 uvloop yarl
""")
"""Packages among those that images with PyTorch and transformers have."""
