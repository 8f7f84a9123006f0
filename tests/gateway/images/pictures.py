"""Images made for tests, whole and damaged."""

from __future__ import annotations

import base64
import random
from io import BytesIO

from PIL import Image

FORMATS = ("PNG", "JPEG", "GIF", "WEBP")


def picture(color: str, form: str = "PNG", mode: str = "RGB", side: int = 40) -> bytes:
    file = BytesIO()
    Image.new("RGB", (side, side), color).convert(mode).save(file, form)
    return file.getvalue()


def noise(side: int) -> bytes:
    file = BytesIO()
    data = random.Random(0).randbytes(3 * side * side)
    Image.frombytes("RGB", (side, side), data).save(file, "PNG")
    return file.getvalue()


def data_uri(data: bytes, form: str = "png") -> str:
    return f"data:image/{form.lower()};base64,{base64.b64encode(data).decode()}"


def damaged(data: bytes, rng: random.Random) -> bytes:
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
