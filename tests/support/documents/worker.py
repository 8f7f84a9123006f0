"""A process in the place of the one that reads PDFs. What follows `%PDF-` says what it does."""

import base64
from typing import get_args

from toolgate_core.killable import Work
from toolgate_proxy.features.files.pdf import PdfJob, PdfResult, Problem

ENDLESS, LARGE = "endless", "large"


def run(job):
    text = base64.b64decode(job.data).decode().removeprefix("%PDF-")
    while text == ENDLESS:
        pass
    if text == LARGE:
        bytearray(2**31)
    if text in get_args(Problem):
        return PdfResult.model_validate({"problem": text})
    return PdfResult(text=text, pages=1)


def work(_):
    return Work(PdfJob, lambda job: [run(job)])
