"""`tilewright fit`: verdicts, their proofs and figures."""
import csv
import io
import json
import os
import unittest

from harness import SMALL, TempDir, result, tilewright

MODEL = "siglip-so400m"
CONFIG = os.path.join(os.path.dirname(__file__), "..", "..", "configs", "c600.toml")


def rows(*arguments):
    return result("fit", MODEL, *arguments, "--no-cache")["fit"]


class Fit(TempDir):
    def test_small_batches_fit_with_the_figures_of_compile(self):
        fit = rows(*SMALL, "--batch", "1..3")
        self.assertEqual([r["batch"] for r in fit["rows"]], [1, 2, 3])
        self.assertEqual({r["verdict"] for r in fit["rows"]}, {"fits"})
        self.assertEqual(fit["largest_batch"], 3)
        compiled = json.loads(tilewright("compile", MODEL, *SMALL, "--batch", 2, "-o", self.folder / "p.ipuexe", "--json", "-",
                                         check=0).stdout)["compile"]
        attempt = fit["rows"][1]["attempts"][0]
        for key in ("model", "memory", "exchange", "cycles"):
            self.assertEqual(attempt["compile"][key], compiled[key])
        self.assertEqual(attempt["headroom_bytes"], compiled["memory"]["budget_bytes"] - compiled["memory"]["peak_tensor_bytes"])

    def test_the_bound_is_below_what_is_built(self):
        for precision in ("fp8", "fp16"):
            row = rows(*SMALL, "--batch", "2", "--precision", precision)["rows"][0]
            built = row["attempts"][0]["compile"]["memory"]
            self.assertLessEqual(row["bound"]["parameter_bytes"], built["parameter_bytes_total"])
            self.assertLessEqual(row["bound"]["bytes_per_tile"], built["peak_tensor_bytes"])
            self.assertGreaterEqual(row["bound"]["available_bytes"], built["budget_bytes"])

    def test_the_bound_alone_refuses_what_cannot_fit(self):
        row = rows("--batch", "1", "--tiles", 64)["rows"][0]  # 27 layers: 428 MB of parameters
        self.assertEqual(row["verdict"], "cannot-fit")
        self.assertEqual(row["attempts"], [])
        # models.md B.1: 428,225,600 parameters; all but vectors, probe and positions are one byte each.
        self.assertGreater(row["bound"]["parameter_bytes"], 428_000_000)
        self.assertLess(row["bound"]["parameter_bytes"], 430_000_000)
        self.assertGreater(row["bound"]["bytes_per_tile"], 428_000_000 // 64)

    def test_the_verdict_follows_from_the_attempts(self):
        for policies in (["default"], ["default", "capacity"]):
            row = rows("--batch", "1", "--layers", 1, "--tiles", 90, "--policy",
                       policies[0] if len(policies) == 1 else "both")["rows"][0]
            self.assertEqual([a["policy"] for a in row["attempts"]], policies)
            errors = [a["error"] for a in row["attempts"]]
            searched = any(e["kind"] == "fragmentation" for e in errors)
            self.assertEqual(row["verdict"], "undecided" if searched else "cannot-fit")
            self.assertTrue(row["proof"])
            for error in errors:
                if error["kind"] in ("capacity", "contiguity", "fragmentation"):
                    self.assertGreater(error["missing_bytes"], 0)
                    self.assertIn("step_path", error)

    def test_a_limit_that_the_schedule_exceeds_decides(self):
        for limit, value, kind in (("--fragment-limit", 10, "fragments"), ("--table-budget", 1000, "exchange-table")):
            row = rows(*SMALL, "--batch", "1", limit, value)["rows"][0]
            self.assertEqual(row["verdict"], "cannot-fit")
            self.assertEqual({a["error"]["kind"] for a in row["attempts"]}, {kind})
            self.assertIn("limit", row["proof"])

    def test_lists_and_ranges(self):
        self.assertEqual([r["batch"] for r in rows(*SMALL, "--batch", "2,1,2..3")["rows"]], [1, 2, 3])
        for bad in ("", "0", "a", "3..1", "1..", "..2", "1,,2", "1,", "-1", "257", "1..2..3", "1.5"):
            with self.subTest(bad):
                self.assertIn("--batch", tilewright("fit", MODEL, "--small", f"--batch={bad}", check=2).stderr)

    def test_ranges_of_everything(self):
        other = self.folder / "narrow.toml"
        with open(CONFIG) as device:
            other.write_text(device.read().replace('name = "c600"', 'name = "narrow"'))
        fit = result("fit", MODEL, "--small", "--layers", "1,2", "--tiles", "48,64", "--precision", "fp8,fp16", "--batch", "1..2",
                     "--target", other, "--no-cache")["fit"]
        self.assertEqual([(r["precision"], r["tiles"], r["layers"], r["batch"]) for r in fit["rows"]],
                         [(p, t, l, b) for p in ("fp8", "fp16") for t in (48, 64) for l in (1, 2) for b in (1, 2)])
        self.assertTrue(all(r["target"].startswith("narrow (") for r in fit["rows"]))
        self.assertEqual(len(fit["largest_batches"]), 8)
        self.assertIsNone(fit["largest_batch"])
        for row in fit["rows"]:
            self.assertEqual(row["attempts"][0]["compile"]["model"]["layers"], row["layers"])
            self.assertEqual(row["attempts"][0]["compile"]["precision"], row["precision"])

    def test_csv_has_the_figures_of_the_json(self):
        done = tilewright("fit", MODEL, "--small", "--batch", "1,2", "--tiles", "2,64", "--no-cache", "--csv", "-", "--json",
                          self.folder / "fit.json", check=0)
        lines = list(csv.DictReader(io.StringIO(done.stdout)))
        report = json.loads((self.folder / "fit.json").read_text())["fit"]["rows"]
        self.assertEqual(len(lines), len(report))
        self.assertEqual({r["verdict"] == "fits" for r in report}, {False, True})
        for line, row in zip(lines, report):
            self.assertEqual((int(line["batch"]), int(line["tiles"]), line["verdict"]), (row["batch"], row["tiles"], row["verdict"]))
            if row["verdict"] == "fits":
                built = row["attempts"][-1]["compile"]
                self.assertEqual(int(line["peak_tensor_bytes"]), built["memory"]["peak_tensor_bytes"])
                self.assertEqual(float(line["cycles_scheduled"]), built["cycles"]["scheduled"])
                self.assertEqual(line["operation"], built["memory"]["peak_step_path"])
                self.assertEqual(line["kind"], "")
            else:
                errors = [a["error"] for a in row["attempts"]]
                self.assertIn(line["kind"], [e["kind"] for e in errors] or ["capacity"])
                self.assertIn(line["missing_bytes"], [str(e.get("missing_bytes", "")) for e in errors])

    def test_a_second_run_resumes(self):
        cache = self.folder / "cache"
        ask = ("fit", MODEL, *SMALL, "--batch", "1..2", "--cache", cache)
        first = result(*ask)["fit"]["rows"]
        files = sorted(os.listdir(cache))
        self.assertEqual(len(files), 2)
        again = result(*ask)["fit"]["rows"]
        self.assertFalse(any(a["cached"] for r in first for a in r["attempts"]))
        self.assertTrue(all(a["cached"] for r in again for a in r["attempts"]))
        for r in first + again:
            for a in r["attempts"]:
                del a["cached"]
        self.assertEqual(first, again)
        # A refusal is kept as well, and other options are other cases.
        for expected in (False, True):
            refused = result(*ask, "--fragment-limit", 10)["fit"]["rows"][0]["attempts"]
            self.assertEqual([a["cached"] for a in refused], [expected] * 2)
            self.assertEqual({a["error"]["kind"] for a in refused}, {"fragments"})

    def test_damaged_entries_are_not_believed(self):
        cache = self.folder / "cache"
        ask = ("fit", MODEL, *SMALL, "--batch", "1", "--cache", cache)
        first = result(*ask)["fit"]["rows"][0]["attempts"][0]
        (entry,) = cache.iterdir()
        good = entry.read_text()
        for bad in ("", "{}", good[:-40], good.replace('"peak_tensor_bytes":', '"peak_tensor_bytes":1'), "[1]", "\xff",
                    good.replace("siglip-so400m", "siglip-so400n")):
            with self.subTest(bad[:20]):
                entry.write_text(bad)
                attempt = result(*ask)["fit"]["rows"][0]["attempts"][0]
                self.assertFalse(attempt["cached"])
                self.assertEqual(attempt["compile"], first["compile"])

    def test_a_cache_that_cannot_be_written_is_left_alone(self):
        blocked, work = self.folder / "file", self.folder / "work"
        blocked.write_text("")
        work.mkdir()
        done = tilewright("fit", MODEL, *SMALL, "--batch", "1..4", "--cache", blocked / "cache", "--json", "-", cwd=work, check=0)
        self.assertEqual({r["verdict"] for r in json.loads(done.stdout)["fit"]["rows"]}, {"fits"})
        self.assertEqual(done.stderr.count("not kept"), 1)
        self.assertEqual(os.listdir(work), [])
        self.assertEqual(blocked.read_text(), "")

    def test_bad_lists(self):
        for option, bad in (("--layers", "0"), ("--layers", "x"), ("--tiles", "1473"), ("--tiles", "5..2"), ("--precision", "int8"),
                            ("--target", "/does/not/exist")):
            with self.subTest(f"{option} {bad}"):
                done = tilewright("fit", MODEL, "--small", option, bad)
                self.assertIn(done.returncode, (2, 4))
                self.assertIn(bad if option == "--target" else option, done.stderr)
        self.assertIn("same file", tilewright("fit", MODEL, *SMALL, "--csv", "-", "--json", "-", check=2).stderr)

    def test_table(self):
        text = tilewright("fit", MODEL, *SMALL, "--batch", "1,2", "--no-cache", check=0).stdout
        self.assertIn("largest batch that fits: 2", text)


if __name__ == "__main__":
    unittest.main()
