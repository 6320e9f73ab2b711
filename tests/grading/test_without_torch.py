"""The grader works where torch isn't installed."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import sys


class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch" or name.startswith("torch."):
            raise ModuleNotFoundError("No module named 'torch'", name="torch")


sys.meta_path.insert(0, NoTorch())

import numpy as np

from course_lib.grading import check, hint, status


def softmax(x, axis=-1):
    top = np.max(x, axis=axis, keepdims=True)
    e = np.exp(x - np.where(np.isfinite(top), top, 0))
    total = e.sum(axis=axis, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0)


print(repr(check("05.softmax")), hint("05.softmax").blocks[0].text, status().blocks[0].text)


def softmax(x, axis=-1):
    import torch

    return torch.softmax(torch.as_tensor(x), axis)


print(" ".join(str(check("05.softmax")).split()))
try:
    check("05.softmax", backend="torch")
except ValueError as error:
    print(error)
"""


def test_the_grader_works_without_torch_and_says_what_lacks_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env={**os.environ, "COURSE_LIB_PROGRESS": "off"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    first, second, third = done.stdout.splitlines()
    assert first.startswith("3.0 05.softmax · hint 1 of 3 Where you stand · 1 of 8 exercises")
    assert "0 of 3 points" in second
    assert "Your function raised ModuleNotFoundError: No module named 'torch'" in second
    assert third == "backend 'torch' needs torch, which isn't installed here"
