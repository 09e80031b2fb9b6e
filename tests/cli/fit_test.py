"""`tilewright fit`: verdicts, their proofs and figures."""
import json
import unittest

from harness import SMALL, TempDir, result, tilewright

MODEL = "siglip-so400m"
SMALL_TILES = 64


def rows(*arguments):
    return result("fit", MODEL, *arguments)["fit"]


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

    def test_table(self):
        text = tilewright("fit", MODEL, *SMALL, "--batch", "1,2", check=0).stdout
        self.assertIn("largest batch that fits: 2", text)


if __name__ == "__main__":
    unittest.main()
