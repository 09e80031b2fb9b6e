"""Runs every command of docs/tutorial.md and holds what stands below it against the output."""
import os
import re
import subprocess
import unittest

from harness import BIN, SOURCE, TempDir

BLOCK = re.compile(r"^```sh run\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)


def shape(line):
    """A line without its figures: they move when the planner improves."""
    return re.sub(r"[0-9a-f]*\d[\d,.a-f]*", "#", line.rstrip())


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
        for command in ("fit", "compile", "run", "compare", "inspect", "report"):
            self.assertTrue(any(f"tilewright {command} " in commands for commands, _ in blocks), command)

    def test_lines_that_are_not_printed_are_found(self):
        self.assertEqual(missing("a 1\n...\nb\n", "a 23\nc\nbb\n"), "b")
        self.assertIsNone(missing("a 1\n...\nb...\n", "a 23\nc\nbb\n"))
        self.assertEqual(missing("b\na\n", "a\nb\n"), "a")


if __name__ == "__main__":
    unittest.main()
