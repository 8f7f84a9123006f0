"""Pack what `bench gpu-engine` needs on a machine with a GPU and PyTorch, but without a network.

    python -m bench gpu-engine-pack DIR [--wheels DIR] [--python 3.12] [--architecture 90]

Writes DIR/packed.tar.xz: vLLM's CUDA build with the kernels of one kind of GPU, the packages that
an image with PyTorch and transformers usually lacks, BFCL, and a model without weights in the
shapes of Qwen3-8B. Versions are those of this environment. Downloaded wheels are kept.
`bench gpu-engine-bare` runs it there.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from zipfile import ZipFile

from tests.models import ROOT
from tests.models.tiny_random import model_files
from tests.support.shared_data import BFCL, DATA, path_of

from .fat_binary import keep_kernels
from .packages import ARCHIVE, CARRIED, MODEL, SITE

SHAPES = {
    "dtype": "bfloat16",
    "hidden_size": 4096,
    "intermediate_size": 12_288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "tie_word_embeddings": False,
}
"""Of Qwen3-8B."""
LIBRARIES = (
    "vllm/_C_stable_libtorch.abi3.so",
    "vllm/cumem_allocator.abi3.so",
    "vllm/fs_io_C.abi3.so",
    "vllm/spinloop.abi3.so",
    "vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so",
)
"""Of vLLM's wheel: what a dense model in bf16 needs on a GPU of the Hopper generation."""
OTHER_HARDWARE = "vllm/third_party/fmha_sm100/", "vllm/third_party/tml_fa4/"
UNUSED = (".h", ".hpp", ".pyi", "/RECORD", "libtvm_ffi_testing.so")
"""Ends of names."""
GLIBC = range(17, 40)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench gpu-engine-pack",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--wheels", type=Path, default=ROOT / ".cache" / "wheels")
    parser.add_argument("--python", default="3.12", help="version on that machine")
    parser.add_argument("--architecture", type=int, default=90, help="of its GPU; 90 is Hopper")
    options = parser.parse_args()
    archive = options.directory / ARCHIVE
    for directory in (options.directory, options.wheels):
        directory.mkdir(parents=True, exist_ok=True)
    download(options.wheels, options.python)
    write(archive, sorted(options.wheels.glob("*.whl")), options.architecture)
    print(f"{archive}: {archive.stat().st_size / 1e6:.1f} MB")
    return 0


def write(archive: Path, wheels: Sequence[Path], architecture: int) -> None:
    with tarfile.open(archive, "w:xz") as packed:
        for wheel in wheels:
            for name, content in contents(wheel, architecture):
                add(packed, f"{SITE}/{name}", content)
        for name, text in model_files(DATA / "qwen3-tokenizer", SHAPES).items():
            add(packed, f"{MODEL}/{name}", text.encode())
        add(packed, f"data/{BFCL}", path_of(BFCL).read_bytes())


def download(wheels: Path, python: str) -> None:
    """Raises CalledProcessError if there is no wheel of a package."""
    wanted = [f"vllm=={_version('vllm')}", *(f"{name}=={_version(name)}" for name in CARRIED)]
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", python, "--implementation", "cp", "--dest", str(wheels)]
    for glibc in GLIBC:
        command += ["--platform", f"manylinux_2_{glibc}_x86_64"]
    command += ["--platform", "manylinux2014_x86_64", "--platform", "manylinux1_x86_64"]
    subprocess.run([*command, *wanted], check=True)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return version(f"{name}-cpu").partition("+")[0]


def contents(wheel: Path, architecture: int) -> Iterator[tuple[str, bytes]]:
    """The files of a wheel that are needed: of vLLM, its Python modules and some libraries."""
    vllm = wheel.name.startswith("vllm-")
    with ZipFile(wheel) as files:
        for name in files.namelist():
            if name in LIBRARIES:
                library = bytearray(files.read(name))
                keep_kernels(library, architecture, needed)
                yield name, bytes(library)
            elif (
                not name.endswith(("/", *UNUSED))
                and not name.startswith(OTHER_HARDWARE)
                and (not vllm or name.endswith(".py") or ".dist-info/" in name)
            ):
                yield name, files.read(name)


def needed(code: bytes) -> bool:
    """Of the kernels of attention, only those for heads of 128 numbers in bf16."""
    return b"FlashAttnFwdSm90" not in code or b"Li128ENS_10bfloat16_t" in code


def add(packed: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    packed.addfile(entry, io.BytesIO(content))
