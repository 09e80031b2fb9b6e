"""Runs the built programs for the command-line tests. TW_BIN names the folder that holds them."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ.get("TW_BIN", "build/release/bin")).resolve()
SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
PHOTOS = SOURCE / "photos"
SMALL = ["--small", "--tiles", "64", "--progress", "never"]


def program(name, *arguments, check=None, timeout=900, **kwargs):
    """Result of one run; `check` is the exit code that it must have."""
    done = subprocess.run([BIN / name, *map(str, arguments)], capture_output=True, text=True, timeout=timeout,
                          **kwargs)
    if check is not None and done.returncode != check:
        raise AssertionError(f"exit {done.returncode}, expected {check}\n{' '.join(map(str, arguments))}\n"
                             f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done


def tilewright(*arguments, **kwargs):
    return program("tilewright", *arguments, **kwargs)


def ipu_e2e(*arguments, **kwargs):
    return program("ipu-e2e-test", *arguments, **kwargs)


def values(text):
    """The key=value pairs of result lines; of equal keys the last."""
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


def result(*arguments, check=0, **kwargs):
    """The JSON of one run with --json -."""
    return json.loads(tilewright(*arguments, "--json", "-", check=check, **kwargs).stdout)


class TempDir(unittest.TestCase):
    """A test with an empty folder of its own."""

    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._folder.name)

    def tearDown(self):
        self._folder.cleanup()
