"""Wrong input gets one clear message and the exit code of the contract, and leaves nothing behind."""
import json
import os
import resource
import signal
import subprocess
import time
import unittest

from harness import BIN, PHOTOS, SLOWER, SMALL, TempDir, assert_budgets_are_exact, ipu_e2e, result, tilewright

MODEL = "siglip-so400m"


class Usage(unittest.TestCase):
    def refuse(self, *arguments, code=2, text=""):
        done = tilewright(*arguments, check=code)
        self.assertIn(text, done.stderr)
        self.assertNotIn("internal", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_usage(self):
        self.refuse(text="subcommand")
        self.refuse("e2e", MODEL, "--no-such-option", text="--no-such-option")
        self.refuse("e2e", "no-such-model", text="no-such-model")
        self.refuse("frobnicate", text="frobnicate")
        for option, value in [("--tiles", 0), ("--tiles", 1473), ("--batch", 0), ("--batch", -1), ("--layers", 0),
                              ("--calls", 0), ("--image-size", 0), ("--image-size", 15), ("--fp8-scale", 16),
                              ("--precision", "fp4"), ("--policy", "wild"), ("--threads", 0), ("--cosine-threshold", 2),
                              ("--table-budget", 0), ("--table-budget", -1), ("--table-budget", 10 << 20),
                              ("--fragment-limit", 0), ("--fragment-limit", -1), ("--fragment-limit", 1 << 30),
                              ("--optimization-steps", -1), ("--calls", -1), ("--layers", 2000),
                              ("--image-size", 1400000), ("--image-size", -14), ("--image-size", 2800), ("--batch", 5000), ("--batch", "many"), ("--seed", "x")]:
            with self.subTest(f"{option} {value}"):
                self.refuse("e2e", MODEL, "--small", option, value)
        self.refuse("e2e", MODEL, "--fuse-qkv", "--no-fuse-qkv", text="exclude")

    def test_json_of_a_usage_error(self):
        error = result("e2e", MODEL, "--tiles", 0, check=2)["error"]
        self.assertEqual(error["kind"], "usage")

    def test_fit_says_that_steps_do_not_matter(self):
        done = tilewright("fit", MODEL, "--small", "--tiles", 64, "--optimization-steps", 3, check=0)
        self.assertIn("--optimization-steps", done.stdout)
        self.assertNotIn("optimization", tilewright("fit", MODEL, "--small", "--tiles", 64, check=0).stdout)

    def test_help(self):
        self.assertTrue(tilewright("--help", check=0).stdout.startswith("Examples:"))
        self.assertTrue(ipu_e2e("--help", check=0).stdout.startswith("Examples:"))
        for command in ("compile", "run", "e2e", "compare", "fit", "calibrate", "inspect"):
            text = tilewright(command, "--help", check=0).stdout
            self.assertTrue(text.startswith("Example:"), text)
            self.assertIn(f"tilewright {command}", text)


class DoesNotFit(TempDir):
    def test_too_few_tiles(self):
        package = self.folder / "p.ipuexe"
        done = tilewright("compile", MODEL, "--layers", 1, "--tiles", 8, "-o", package, "--json", "-", check=3)
        error = json.loads(done.stdout)["error"]
        self.assertIn(error["kind"], ("capacity", "contiguity", "fragmentation"))
        self.assertEqual(os.listdir(self.folder), [])

    def test_table_budget_and_fragment_limit(self):
        fits = result("e2e", MODEL, *SMALL, "--cosine-threshold", "0.9")["compile"]["exchange"]
        table, fragments = fits["table_bytes_max"], fits["fragments_max"]
        error = result("e2e", MODEL, *SMALL, "--fragment-limit", fragments - 1, check=3)["error"]
        self.assertEqual(error["kind"], "fragments")
        self.assertIn(f"{fragments}", error["message"].replace(",", ""))
        result("e2e", MODEL, *SMALL, "--fragment-limit", fragments, "--cosine-threshold", "0.9")
        error = result("e2e", MODEL, *SMALL, "--table-budget", 64, check=3)["error"]
        self.assertEqual(error["kind"], "exchange-table")
        self.assertGreater(table, 64)


    def test_every_field_of_the_message(self):
        """Bounds come before solvers: a batch far too large is refused at once, with numbers that add up."""
        error = result("e2e", MODEL, "--layers", 1, "--batch", 64, "--progress", "never", check=3, timeout=20 * SLOWER)["error"]
        self.assertEqual(error["kind"], "capacity")
        self.assertEqual(error["missing_bytes"], error["needed_bytes"] - error["available_bytes"])
        self.assertGreater(error["missing_bytes"], 0)
        self.assertGreater(error["failing_tiles"], 0)
        live = [t["bytes"] for t in error["live"]]
        self.assertEqual(live, sorted(live, reverse=True))
        self.assertEqual(sum(live), error["needed_bytes"])
        self.assertTrue(any("--batch" in s["change"] and s["saves_bytes"] > 0 for s in error["suggestions"]))
        for error in (result("e2e", MODEL, *SMALL, "--table-budget", 1000, check=3)["error"],
                      result("e2e", MODEL, *SMALL, "--fragment-limit", 10, check=3)["error"]):
            self.assertEqual(error["missing_bytes"], error["needed_bytes"] - error["available_bytes"])
            self.assertGreater(error["failing_tiles"], 0)
            self.assertTrue(error["suggestions"])

    def test_budgets_met_exactly_and_missed_by_one(self):
        for model in ("siglip-so400m", "pe-core-l14-capacity"):
            assert_budgets_are_exact(self, lambda *options, check, model=model: result(
                "e2e", model, *SMALL, "--cosine-threshold", "0.9", *options, check=check))


class Photographs(TempDir):
    def refuse(self, file):
        done = tilewright("e2e", MODEL, *SMALL, "--image", file, check=4)
        self.assertIn(str(file), done.stderr)

    def test_unreadable(self):
        self.refuse(self.folder / "missing.png")
        self.refuse(self.folder)
        text = self.folder / "text.png"
        text.write_text("not an image")
        self.refuse(text)
        empty = self.folder / "empty.jpg"
        empty.write_bytes(b"")
        self.refuse(empty)

    def test_truncated(self):
        whole = (PHOTOS / "coffee.png").read_bytes()
        for length in (1, 8, 33, 1000, len(whole) // 2):
            cut = self.folder / f"cut{length}.png"
            cut.write_bytes(whole[:length])
            self.refuse(cut)

    def test_oversized(self):
        # A PNG header that claims 100,000 x 100,000 pixels.
        whole = bytearray((PHOTOS / "coffee.png").read_bytes())
        whole[16:24] = (100000).to_bytes(4, "big") * 2
        huge = self.folder / "huge.png"
        huge.write_bytes(whole)
        self.refuse(huge)


    def test_all_of_them_before_anything_is_built(self):
        bad = [self.folder / f"{i}.png" for i in range(60)]
        bad[1].write_text("not an image")
        package = self.folder / "p.ipuexe"
        images = [x for file in [*bad[:2], PHOTOS / "coffee.png"] for x in ("--image", file)]
        done = tilewright("e2e", MODEL, *SMALL, *images, "-o", package, check=4)
        self.assertIn("2 photographs cannot be read", done.stderr)
        self.assertIn(f"{bad[0]}: no such file", done.stderr)
        self.assertIn(str(bad[1]), done.stderr)
        self.assertNotIn("coffee", done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertFalse(package.exists())
        done = tilewright("e2e", MODEL, *SMALL, *[x for file in bad for x in ("--image", file)], check=4)
        self.assertIn("and 10 more", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 52)


class NoRegularFiles(TempDir):
    """What has no end or no writer is refused at once, by name."""

    def test_devices_and_pipes(self):
        pipe, package = self.folder / "pipe", self.folder / "p.ipuexe"
        os.mkfifo(pipe)
        for suffix in (".onnx", ".json", ".png", ".safetensors"):
            os.mkfifo(self.folder / f"pipe{suffix}")
        model = ["compile", MODEL, *SMALL, "-o", package]
        for name in ("/dev/zero", str(pipe)):
            for command in ([*model, "--calibration", name], [*model, "--weights", name], ["run", name], ["compare", name],
                            ["inspect", name], ["e2e", MODEL, *SMALL, "--image", name],
                            ["calibrate", MODEL, "--small", "--image", name, "-o", package]):
                with self.subTest(command):
                    self.assertIn(name, tilewright(*command, check=4, timeout=20 * SLOWER).stderr)
        for command in ([*model, "--weights", f"{pipe}.json"], [*model, "--weights", f"{pipe}.safetensors"],
                        ["compile", f"{pipe}.onnx", "-o", package], ["e2e", MODEL, *SMALL, "--image", f"{pipe}.png"]):
            with self.subTest(command):
                self.assertIn(f"{pipe}.", tilewright(*command, check=4, timeout=20 * SLOWER).stderr)
        self.assertIn("more than", tilewright(*model, "--target", "/dev/zero", check=4).stderr)
        self.assertFalse(package.exists())

    def test_a_calibration_beside_a_package(self):
        pipe, package = self.folder / "pipe", self.folder / "p.ipuexe"
        os.mkfifo(pipe)
        tilewright("compile", MODEL, *SMALL, "-o", package, check=0)
        for command in ("run", "compare"):
            for file in (pipe, "/dev/zero", self.folder):
                with self.subTest(f"{command} {file}"):
                    done = tilewright(command, package, "--calibration", file, check=4, timeout=20 * SLOWER)
                    self.assertIn(f"{file}: is no regular file", done.stderr)


class SameFile(TempDir):
    """An output that is an input or another output is refused before any work, and the input stays as it is."""

    def refuse(self, program, *arguments, options, kept=()):
        before = {file: file.read_bytes() for file in kept}
        done = program(*arguments, check=2)
        self.assertIn(f"{options[0]} and {options[1]} name the same file", done.stderr)
        self.assertEqual({file: file.read_bytes() for file in kept}, before)

    def test_every_command(self):
        weights, scales, package, image, model, index = (self.folder / name for name in (
            "w.safetensors", "s.json", "p.ipuexe", "i.png", "m.onnx", "model.safetensors.index.json"))
        for file in (weights, scales, package, image, model, index):
            file.write_bytes(b"content")
        (self.folder / "sub").mkdir()
        around = self.folder / "sub" / ".." / weights.name
        link = self.folder / "link"
        link.symlink_to(weights)
        small = [MODEL, *SMALL]
        for arguments, options, kept in (
                (["calibrate", MODEL, "--small", "--weights", weights, "-o", weights], ("--output", "--weights"), weights),
                (["calibrate", MODEL, "--small", "--weights", weights, "-o", around], ("--output", "--weights"), weights),
                (["calibrate", MODEL, "--small", "--image", image, "-o", image], ("--output", "--image"), image),
                (["calibrate", MODEL, "--small", "--held-out", image, "-o", image], ("--output", "--held-out"), image),
                (["calibrate", MODEL, "--small", "-o", scales, "--json", scales], ("--json", "--output"), scales),
                (["calibrate", MODEL, "--small", "-o", "-", "--json", "-"], ("--json", "--output"), scales),
                (["compile", *small, "--weights", weights, "-o", link], ("--output", "--weights"), weights),
                (["compile", *small, "--weights", self.folder, "-o", weights], ("--output", "--weights"), weights),
                (["compile", *small, "--weights", index, "-o", weights], ("--output", "--weights"), weights),
                (["compile", *small, "--calibration", scales, "-o", scales], ("--output", "--calibration"), scales),
                (["compile", model, "-o", model], ("--output", "model"), model),
                (["e2e", *small, "--image", image, "--json", image], ("--json", "--image"), image),
                (["e2e", model, "--input", f"x={image}", "--json", image], ("--json", "--input"), image),
                (["e2e", *small, "--tiles", 0, "--weights", weights, "--json", weights], ("--json", "--weights"), weights),
                (["run", package, "--json", package], ("--json", "package"), package),
                (["fit", *small[:-2], "--csv", scales, "--json", scales], ("--json", "--csv"), scales),
                (["problem", package, "--tile", 0, "-o", package], ("--output", "package"), package),
                (["report", package, "--trace", package], ("--trace", "package"), package)):
            with self.subTest(arguments):
                self.refuse(tilewright, *arguments, options=options, kept=[kept])
        for arguments, options in (
                (["--weights", weights, "--package", weights], ("--package", "--weights")),
                (["--reference-fixture", self.folder, "--package", weights], ("--package", "--reference-fixture")),
                (["--package", package, "--json", package], ("--json", "--package")),
                (["--package", package, "--reuse-package", "--json", package], ("--json", "--package"))):
            with self.subTest(arguments):
                self.refuse(ipu_e2e, "--vit-small", *arguments, options=options, kept=[weights, package])

    def test_json_of_the_error_goes_where_nothing_is_lost(self):
        weights = self.folder / "w.safetensors"
        error = result("compile", MODEL, *SMALL, "--weights", weights, "-o", weights, check=2)["error"]
        self.assertEqual(error["kind"], "usage")
        self.assertFalse(weights.exists())

    def test_different_files_are_none_of_it(self):
        package = self.folder / "p.ipuexe"
        tilewright("compile", MODEL, *SMALL, "--weights", "random", "-o", package, "--json", self.folder / "j", check=0)
        tilewright("report", package, "-o", self.folder, "--trace", self.folder / "trace.json", check=0)


class EmptyNames(TempDir):
    def test_no_check_is_switched_off_by_an_empty_value(self):
        package = self.folder / "p.ipuexe"
        for command in (["e2e", MODEL], ["compile", MODEL, "-o", package], ["run", package]):
            for option in ("--weights", "--calibration", "--target", "--json"):
                with self.subTest(f"{command[0]} {option}"):
                    self.assertIn(f"{option}: the name", tilewright(*command, option, "", check=2).stderr)
        for option in ("--reference-fixture", "--weights", "--reference-calibration", "--package"):
            with self.subTest(option):
                self.assertIn(f"{option}: the name", ipu_e2e("--vit-small", option, "", check=2).stderr)
        self.assertEqual(os.listdir(self.folder), [])


class Packages(TempDir):
    def setUp(self):
        super().setUp()
        self.package = self.folder / "p.ipuexe"
        tilewright("compile", MODEL, *SMALL, "-o", self.package, check=0)
        self.bytes = self.package.read_bytes()

    def refuse(self, content):
        bad = self.folder / "bad.ipuexe"
        bad.write_bytes(content)
        done = tilewright("run", bad, check=4)
        self.assertIn("bad.ipuexe", done.stderr)

    def test_truncated(self):
        size = len(self.bytes)
        for length in (0, 1, 7, 8, 63, 64, 4095, 4096, size // 3, size // 2, size - 4096, size - 1):
            with self.subTest(length):
                self.refuse(self.bytes[:length])

    def test_flipped_bits(self):
        size = len(self.bytes)
        for i in range(40):
            at = (i * 2654435761) % size
            content = bytearray(self.bytes)
            content[at] ^= 1 << (i % 8)
            with self.subTest(at):
                self.refuse(content)

    def test_foreign(self):
        self.refuse(b"PK\x03\x04" + b"\0" * 5000)
        done = tilewright("run", self.folder / "missing.ipuexe", check=4)
        self.assertIn("missing.ipuexe", done.stderr)

    def test_inspect(self):
        text = tilewright("inspect", self.package, check=0).stdout
        self.assertIn("vit.image.patches", text)
        self.assertIn("phase 0", tilewright("inspect", self.package, "--tile", 0, check=0).stdout)
        self.assertIn("row of phase 0", tilewright("inspect", self.package, "--tile", 0, "--phase", 0, check=0).stdout)
        tilewright("inspect", self.package, "--tile", 0, "--phase", 999, check=2)
        tilewright("inspect", self.package, "--tile", 1472, check=2)

    def test_the_summary_is_the_same_on_every_run(self):
        first = json.loads(tilewright("inspect", self.package, "--json", "-", check=0).stdout)["compile"]
        self.assertEqual(first["model"]["name"], MODEL)
        for host_figure in ("seconds", "host_peak_rss_bytes", "package"):
            self.assertNotIn(host_figure, first)


class Interrupted(TempDir):
    def test_nothing_is_left_whenever_it_comes(self):
        target = self.folder / "p.ipuexe"
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            child = subprocess.Popen([BIN / "tilewright", "compile", MODEL, "--layers", "1", "-o", target],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.3)
            child.send_signal(signal_number)
            self.assertEqual(child.wait(timeout=60), 130)
            self.assertEqual(os.listdir(self.folder), [])

    def test_whole_files_or_none_at_every_stage(self):
        """Interrupted after each sixteenth of the whole run: planning to the last call, both kinds of files."""
        package, report = self.folder / "p.ipuexe", self.folder / "r.json"
        command = ["e2e", MODEL, *SMALL, "--cosine-threshold", "0.9", "-o", package, "--json", report]
        begin = time.monotonic()
        tilewright(*command, check=0)
        whole = time.monotonic() - begin
        interrupted = 0
        for i in range(16):
            for file in (package, report):
                file.unlink(missing_ok=True)
            child = subprocess.Popen([BIN / "tilewright", *map(str, command)], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
            time.sleep(whole * (i + 1) / 16)
            child.send_signal(signal.SIGINT)
            code = child.wait(timeout=60)
            self.assertIn(code, (0, 130, -signal.SIGINT))  # the last: before the handler was there
            interrupted += code == 130
            self.assertLessEqual({f.name for f in self.folder.iterdir()}, {package.name, report.name})
            if package.exists():
                tilewright("inspect", package, check=0)
            if report.exists():
                json.loads(report.read_text())
        self.assertGreater(interrupted, 8)


class Outputs(TempDir):
    def test_unwritable(self):
        for target in (self.folder / "no" / "such" / "folder.ipuexe", self.folder):
            done = tilewright("compile", MODEL, *SMALL, "-o", target, check=4)
            self.assertIn(str(target), done.stderr)
        tilewright("e2e", MODEL, *SMALL, "--cosine-threshold", "0.9", "--json", self.folder / "no" / "x.json", check=4)

    def test_full_disk(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        target = self.folder / "p.ipuexe"
        done = tilewright("compile", MODEL, *SMALL, "-o", target, check=4, preexec_fn=limit)
        self.assertIn(str(target), done.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_target_files(self):
        bad = self.folder / "t.toml"
        for text in ("nonsense = [", "tilez = 5\n", "tiles = 0\n", ""):
            bad.write_text(text)
            done = tilewright("e2e", MODEL, *SMALL, "--target", bad)
            if text:
                self.assertIn(done.returncode, (2, 4), text)
        tilewright("e2e", MODEL, *SMALL, "--target", self.folder / "none.toml", check=4)


if __name__ == "__main__":
    unittest.main()
