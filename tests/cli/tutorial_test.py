"""Runs every command of docs/tutorial.md and holds what stands below it against the output."""
import os
import re
import subprocess
import unittest

from harness import BIN, SOURCE, TempDir

BLOCK = re.compile(r"^```sh run\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)
# Figures that say whether a command did well: exit codes, and how many elements differ (the column of compare, too).
VERDICT = r"exit code \d+|\b\d[\d,]* different\b|^\S+ +\d+ +\d+ +\d+(?= +-?\d+\.\d)"


def shape(line):
    """A line without its figures but verdicts: they move when the planner improves."""
    return re.sub(rf"({VERDICT})|[0-9a-f]*\d[\d,.a-f]*", lambda found: found[1] or "#", line.rstrip())


def missing(shown, printed):
    """The first shown line that does not follow in what was printed; '...' leaves out lines, or the rest of one."""
    left = iter([shape(line) for line in printed.splitlines()])
    for line in shown.splitlines():
        if line == "...":
            continue
        wanted = shape(line.removesuffix("..."))
        cut = line.endswith("...")
        if not any(found.startswith(wanted) if cut else found == wanted for found in left):
            return line
    return None


class Tutorial(TempDir):
    def test_every_command_does_what_stands_below_it(self):
        blocks = BLOCK.findall((SOURCE / "docs/tutorial.md").read_text())
        self.assertGreater(len(blocks), 12)
        environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
        for commands, shown in blocks:
            with self.subTest(commands):
                done = subprocess.run(["bash", "-eu", "-c", commands], cwd=self.folder, env=environment, timeout=120,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                self.assertEqual(done.returncode, 0, done.stdout[-3000:])
                self.assertIsNone(missing(shown, done.stdout), done.stdout[-3000:])
        for command in ("fit", "compile", "run", "compare", "calibrate", "inspect", "report"):
            self.assertTrue(any(f"tilewright {command} " in commands for commands, _ in blocks), command)

    def test_lines_that_are_not_printed_are_found(self):
        self.assertEqual(missing("a 1\n...\nb\n", "a 23\nc\nbb\n"), "b")
        self.assertIsNone(missing("a 1\n...\nb...\n", "a 23\nc\nbb\n"))
        self.assertEqual(missing("b\na\n", "a\nb\n"), "a")

    def test_verdicts_are_held(self):
        for shown, printed in (("exit code 3", "exit code 1"), ("0 different", "17 different"), ("0 different", "10 different"),
                               ("mlp.up  1  1,152 1,000 different", "mlp.up  1  1,152 2,000 different"),
                               ("vit.embedding  0  576  0  0.99  0.07", "vit.embedding  0  576  5  0.99  0.07")):
            self.assertEqual(missing(shown, printed), shown)
            self.assertIsNone(missing(shown, shown))
        self.assertIsNone(missing("vit.embedding  0  576  0  0.99  0.07", "vit.embedding  0  576  0  0.98  0.1"))


if __name__ == "__main__":
    unittest.main()
