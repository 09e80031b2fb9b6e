"""Runs the built programs for the command-line tests. TW_BIN names the folder that holds them."""
import atexit
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ.get("TW_BIN", "build/release/bin")).resolve()
SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
PHOTOS = SOURCE / "photos"
# What a limit of seconds is multiplied by in builds with sanitizers.
SLOWER = int(os.environ.get("TW_SLOWER", "1"))
# Finished cases of `fit` stay within one test program.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()
atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)
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


def assert_budgets_are_exact(test, build):
    """`build(*options, check=code)` compiles one job and returns its JSON. What the job needs is enough, the smallest
    step less is refused with numbers that add up. Returns the `compile` object without extra options."""
    free = build(check=0)["compile"]
    table, fragments = (free["exchange"][key] for key in ("table_bytes_max", "fragments_max"))
    again = build("--table-budget", table, "--fragment-limit", fragments, check=0)["compile"]["exchange"]
    test.assertEqual((again["table_bytes_max"], again["fragments_max"]), (table, fragments))
    for option, needed, step, kind in (("--table-budget", table, 4, "exchange-table"),
                                       ("--fragment-limit", fragments, 1, "fragments")):
        error = build(option, needed - step, check=3)["error"]
        test.assertEqual((error["kind"], error["needed_bytes"], error["available_bytes"], error["missing_bytes"]),
                         (kind, needed, needed - step, step))
    return free


# Full depth takes minutes: only with ./test.sh --long.
long_test = unittest.skipUnless(os.environ.get("TILEWRIGHT_LONG"), "long: set TILEWRIGHT_LONG=1")


class TempDir(unittest.TestCase):
    """A test with an empty folder of its own."""

    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._folder.name)

    def tearDown(self):
        self._folder.cleanup()
