"""`tilewright report`: its numbers against those of compile and run, its page in a browser, its errors."""
import json
import os
import pathlib
import shutil
import subprocess
import unittest

from harness import SMALL, SOURCE, TempDir, result, tilewright

WEB = pathlib.Path(os.environ.get("TW_WEB", "build/release/web"))


class Reports(TempDir):
    def setUp(self):
        super().setUp()
        self.package, self.report = self.folder / "small.ipuexe", self.folder / "report"

    def make(self, *options):
        compiled = result("compile", "siglip-so400m", *SMALL, *options, "-o", self.package)["compile"]
        tilewright("report", self.package, "-o", self.report, check=0)
        return compiled, json.loads((self.report / "report.json").read_text())

    def test_figures_equal_those_of_compile_and_run(self):
        compiled, written = self.make("--layers", 3, "--batch", 2)
        self.assertEqual(written["schema_version"], 1)
        report, memory, exchange = written["report"], compiled["memory"], compiled["exchange"]
        tiles, fullest = report["tiles"], report["fullest"]
        self.assertEqual(written["compile"]["memory"], memory)
        self.assertEqual(max(tiles["peak_bytes"]), memory["peak_tensor_bytes"])
        self.assertEqual(max(fullest["bytes"]), memory["peak_tensor_bytes"])
        worst = tiles["logical"].index(memory["peak_tile"])
        self.assertEqual(tiles["peak_step"][worst], memory["peak_step"])
        self.assertEqual(max(tiles["table_bytes"]), exchange["table_bytes_max"])
        self.assertAlmostEqual(sum(tiles["table_bytes"]) / len(tiles["table_bytes"]), exchange["table_bytes_mean"], places=3)
        self.assertEqual(len(report["phases"]["step"]), exchange["phases"])
        # Tensors may use what is no area: the summary's budget. Live and free bytes of a tile are all of it.
        self.assertEqual(tiles["peak_bytes"][worst] + tiles["free_bytes"][worst], memory["budget_bytes"])
        # Every word sent is received at least once; senders and receivers are those of the phase.
        self.assertEqual(sum(tiles["messages"]), sum(report["phases"]["messages"]))
        simulated = result("run", self.package, "--reference", "none")["run"]["simulated"]
        self.assertEqual(sum(report["phases"]["exchange_cycles"]), simulated["exchange_cycles"])
        kernels = sum(tiles["kernel_cycles"]) / len(tiles["kernel_cycles"])
        self.assertLess(kernels, simulated["compute_cycles"])  # which has the supervisor's words and patches, too
        self.assertGreater(kernels, 0.5 * simulated["compute_cycles"])

    def test_the_page_shows_the_numbers_of_the_json(self):
        self.make("--layers", 2)
        pictures = WEB / "screenshots"
        shutil.rmtree(pictures, ignore_errors=True)
        pictures.mkdir(parents=True)
        done = subprocess.run(["node", SOURCE / "tests/web/report.mjs", WEB, self.report, pictures], capture_output=True,
                              text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(list(pictures.iterdir())), 20)

    def test_the_trace_takes_the_scheduled_cycles(self):
        compiled, _ = self.make("--layers", 3)
        trace = json.loads((self.report / "trace.json").read_text())
        # Without row setup and the supervisor's own words.
        scheduled = compiled["cycles"]["scheduled"]
        self.assertLess(trace["otherData"]["cycles"], scheduled)
        self.assertGreater(trace["otherData"]["cycles"], 0.75 * scheduled)
        tilewright("report", self.package, "-o", self.report, "--trace-tile", 5, "--trace-tile", 9, check=0)
        events = json.loads((self.report / "trace.json").read_text())["traceEvents"]
        tracks = [e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"]
        self.assertEqual(tracks, ["phases of the device", "tile 5", "tile 9"])
        live = [e["args"]["standard"] + e["args"]["interleaved"] for e in events if e["ph"] == "C" and e["name"].endswith("tile 5")]
        report = json.loads((self.report / "report.json").read_text())["report"]
        self.assertEqual(max(live), report["tiles"]["peak_bytes"][5])

    def test_files_are_named_and_deterministic(self):
        self.make()
        first = (self.report / "report.html").read_bytes()
        again = result("report", self.package, "-o", self.folder / "deep/er", "--threads", 1)["report"]
        self.assertEqual(pathlib.Path(again["html"]["file"]).read_bytes(), first)
        self.assertEqual(again["html"]["bytes"], len(first))
        self.assertEqual(sorted(p.name for p in self.report.iterdir()), ["report.html", "report.json", "trace.json"])

    def refused(self, *arguments, code=4, kind):
        done = tilewright("report", *arguments, "--json", "-", check=code)
        error = json.loads(done.stdout)["error"]
        self.assertEqual(error["kind"], kind)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        return error["message"]

    def test_errors_take_one_line(self):
        self.make()
        truncated, foreign = self.folder / "cut.ipuexe", self.folder / "foreign.ipuexe"
        truncated.write_bytes(self.package.read_bytes()[:5000])
        foreign.write_bytes(b"PK\x03\x04 no package of ours")
        out = self.folder / "out"
        for file in (truncated, foreign, self.folder / "missing.ipuexe"):
            self.assertIn(file.name, self.refused(file, "-o", out, kind="file" if file.exists() else "io"))
            self.assertFalse(out.exists())
        blocked = self.folder / "file"
        blocked.write_text("in the way")
        self.assertIn("file", self.refused(self.package, "-o", blocked, kind="io"))
        (self.folder / "taken" / "report.json").mkdir(parents=True)
        self.refused(self.package, "-o", self.folder / "taken", kind="io")
        self.assertEqual([p.name for p in (self.folder / "taken").iterdir()], ["report.json"])
        tilewright("report", self.package, check=2)


if __name__ == "__main__":
    unittest.main()
