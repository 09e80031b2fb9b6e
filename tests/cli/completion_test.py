"""Help, completion scripts and manual pages say the same: all are made from one definition, and held against help here."""
import re
import shutil
import subprocess
import unittest

from harness import BIN, TempDir, program, tilewright

COMMANDS = ["compile", "run", "e2e", "compare", "fit", "calibrate", "inspect", "problem", "check", "report", "completion", "man"]
SURFACES = [("tilewright", c) for c in COMMANDS] + [("tilewright", ""), ("ipu-e2e-test", "")]


def help_of(name, command):
    return program(name, *command.split(), "--help", check=0).stdout


def options_of(name, command):
    """{option: its words} as help shows them."""
    found = {}
    for line in help_of(name, command).split("\nOptions:\n")[1].split("\nSubcommands:\n")[0].splitlines():
        names = re.match(r"  (-[^ ]+)", line)
        if names:
            words = re.search(r"\{([^}]*)\}", line)
            for option in names[1].split(","):
                found[option] = words[1].split(",") if words else []
    return found


class Help(unittest.TestCase):
    def test_examples_come_first_and_name_the_command(self):
        for name, command in SURFACES:
            text = help_of(name, command)
            self.assertRegex(text, r"\AExamples?:\n  " + f"{name} {command}".strip())
            self.assertIn("Options:", text)

    def test_every_command_is_looked_at(self):
        listed = help_of("tilewright", "").split("Subcommands:\n")[1]
        self.assertEqual(re.findall(r"^  ([a-z0-9]+) ", listed, re.M), COMMANDS)

    def test_examples_are_accepted_command_lines(self):
        """Every option of an example exists."""
        for name, command in SURFACES:
            text = help_of(name, command).split("\n\n")[0].replace("\\\n", " ")
            for line in re.findall(rf"^  ({name} .*)$", text, re.M):
                used = line.split()[1] if name == "tilewright" else ""
                known = options_of(name, used)
                for word in re.findall(r" (--?[a-z][a-z0-9-]*)", line):
                    self.assertIn(word, known, line)


class Bash(TempDir):
    def setUp(self):
        super().setUp()
        self.script = self.folder / "completion.bash"
        self.script.write_text(tilewright("completion", "bash", check=0).stdout)

    def offered(self, *words):
        """What the last word, as far as it is typed, can become."""
        name = words[0]
        line = " ".join(f"'{w}'" for w in words)
        code = (f"source {self.script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
                f"$(complete -p {name} | sed 's/.*-F \\([^ ]*\\).*/\\1/'); printf '%s\\n' \"${{COMPREPLY[@]}}\"")
        done = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True, cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        return [w for w in done.stdout.split("\n") if w]

    def test_commands(self):
        self.assertEqual(self.offered("tilewright", ""), COMMANDS)
        self.assertEqual(self.offered("tilewright", "co"), ["compile", "compare", "completion"])
        self.assertEqual(sorted(self.offered("tilewright", "--")), ["--help", "--version"])

    def test_options_and_their_words(self):
        seen = 0
        for name, command in SURFACES:
            line = [name, *command.split()]
            options = options_of(name, command)
            self.assertEqual(sorted(self.offered(*line, "-")), sorted(options), line)
            for option, words in options.items():
                if words:
                    seen += 1
                    self.assertEqual(self.offered(*line, option, ""), words)
                    self.assertEqual(self.offered(*line, option, "=", words[0][:2]),
                                     [w for w in words if w.startswith(words[0][:2])])
        self.assertGreater(seen, 20)

    def test_models_shells_and_files(self):
        self.assertEqual(self.offered("tilewright", "compile", "s"), ["siglip-so400m"])
        self.assertEqual(self.offered("tilewright", "completion", ""), ["bash", "zsh", "fish"])
        (self.folder / "small.ipuexe").write_text("")
        (self.folder / "smallfolder").mkdir()
        self.assertEqual(sorted(self.offered("tilewright", "run", "smal")), ["small.ipuexe", "smallfolder"])
        self.assertEqual(self.offered("tilewright", "report", "x", "-o", "smal"), ["smallfolder"])
        self.assertEqual(self.offered("tilewright", "run", "x", "--calls", ""), [])
        self.assertEqual(self.offered("tilewright", "compile", "p"), ["pe-core-l14", "pe-core-l14-capacity"])
        self.assertEqual(self.offered("ipu-e2e-test", "--vit-model", "p"), ["pe-core-l14-capacity"])


class OtherShells(TempDir):
    def test_scripts_hold_every_option_and_parse(self):
        for shell in ("zsh", "fish"):
            script = self.folder / f"completion.{shell}"
            script.write_text(tilewright("completion", shell, check=0).stdout)
            text = script.read_text()
            for name, command in SURFACES:
                for option in options_of(name, command):
                    form = option if shell == "zsh" else re.sub(r"^--?", lambda d: "-l " if d[0] == "--" else "-s ", option)
                    self.assertIn(form, text)
            if shutil.which(shell):
                done = subprocess.run([shell, "-n", script], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_other_shells_are_refused(self):
        self.assertIn("bash", tilewright("completion", "csh", check=2).stderr)


class ManualPages(TempDir):
    def setUp(self):
        super().setUp()
        self.pages = self.folder / "share" / "man1"
        tilewright("man", self.pages, check=0)

    def test_one_page_each_and_no_warning(self):
        names = ["-".join(filter(None, surface)) + ".1" for surface in SURFACES]
        self.assertEqual(sorted(p.name for p in self.pages.iterdir()), sorted(names))
        for page in self.pages.iterdir():
            done = subprocess.run(["groff", "-ww", "-man", "-z", page], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), page)

    def test_every_option_stands_in_its_page_as_in_help(self):
        for name, command in SURFACES:
            page = self.pages / ("-".join(filter(None, (name, command))) + ".1")
            text = subprocess.run(["groff", "-man", "-Tascii", "-P-cbou", page], capture_output=True, text=True, check=True).stdout
            for section in ("NAME", "SYNOPSIS", "EXAMPLES", "OPTIONS", "EXIT STATUS", "SEE ALSO"):
                self.assertIn(f"\n{section}\n", text)
            options = text.split("\nOPTIONS\n")[1].split("\nEXIT STATUS\n")[0]
            heads = " ".join(re.findall(r"^       (-\S.*)$", options, re.M))
            wanted = options_of(name, command)
            self.assertEqual(sorted(re.findall(r"(?<!\S)(--?[a-z][a-z0-9-]*)", heads)), sorted(wanted))
            flat = re.sub(r"-\n\s+", "", options)
            flat = re.sub(r"\s+", " ", flat)
            for option, words in wanted.items():
                if words:
                    after = flat.split(f"{option} ", 1)[1]
                    self.assertRegex(re.sub("-", "", after), "One of " + ", ".join(re.sub("-", "", w) for w in words))
            example = help_of(name, command).splitlines()[1].strip().split()
            self.assertIn(" ".join(example[:3]), re.sub(r" +", " ", text))


if __name__ == "__main__":
    assert BIN.exists()
    unittest.main()
