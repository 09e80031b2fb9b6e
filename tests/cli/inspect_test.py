"""`tilewright inspect`, `problem` and `check`: a package as text and JSON, its problems and solutions, errors."""
import json
import unittest

from harness import SMALL, TempDir, result, tilewright

MODEL = "siglip-so400m"


class WithPackage(TempDir):
    def setUp(self):
        super().setUp()
        self.package = self.folder / "small.ipuexe"
        tilewright("compile", MODEL, *SMALL, "--layers", 3, "-o", self.package, check=0)

    def refused(self, *arguments, code, kind):
        done = tilewright(*arguments, "--json", "-", check=code)
        self.assertEqual(json.loads(done.stdout)["error"]["kind"], kind)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        return done.stderr


class Inspect(WithPackage):
    def test_a_tile(self):
        text = tilewright("inspect", self.package, "--tile", 0, check=0).stdout
        inspected = result("inspect", self.package, "--tile", 0)["inspect"]
        tile = inspected["tile"]
        self.assertEqual(tile["logical"], 0)
        for word in tile["program"]["words"]:
            self.assertIn(f"{word['address']:#07x}: {word['word']:08x}  {word['text']}", text)
        phases = inspected["tile"]["phases"]
        self.assertEqual([p["phase"] for p in phases], list(range(len(phases))))
        self.assertEqual(len(phases), result("inspect", self.package)["compile"]["exchange"]["phases"])
        for note in ("worker_barrier", "phase 0 of vit.embedding", "host_run: ", "vit.image.patches", "GemmF8"):
            self.assertIn(note, text)
        self.assertTrue(any(b["name"] == "vit.image.patches" for b in tile["bindings"]))

    def test_rows_add_up_to_the_exchange_cycles_of_a_run(self):
        """The longest row of a phase is its horizon: all of them with 250 cycles each are what the simulator takes."""
        simulated = result("run", self.package, "--reference", "none")["run"]["simulated"]["exchange_cycles"]
        report = self.folder / "report"
        tilewright("report", self.package, "-o", report, check=0)
        phases = json.loads((report / "report.json").read_text())["report"]["phases"]
        total = 0
        for phase, (tile, iterations) in enumerate(zip(phases["horizon_tile"], phases["iterations"])):
            seen = result("inspect", self.package, "--tile", tile, "--phase", phase)["inspect"]["phase"]
            self.assertEqual(seen["iterations"], iterations)
            self.assertEqual(seen["row"]["lines"][-1]["text"], "br $m10")
            total += (seen["row"]["events"] + 250) * iterations
        self.assertEqual(total, simulated)

    def test_every_word_of_a_package_is_in_the_assembly_text(self):
        text = tilewright("inspect", self.package, "--tile", 9, "--assembly", check=0).stdout
        segments = result("inspect", self.package, "--tile", 9)["inspect"]["tile"]["segments"]
        lines = [line.split(";")[0].split() for line in text.splitlines()]
        sizes = {".word": 4, ".byte": 1, "sendpicp": 8, ".org": 0}
        written = sum(int(l[1]) if l[0] == ".zero" else sizes.get(l[0], 4) for l in lines if l)
        self.assertEqual(written, sum(s["package_bytes"] for s in segments))

    def test_what_is_not_there(self):
        self.assertIn("1472 tiles", self.refused("inspect", self.package, "--tile", 1472, code=2, kind="usage"))
        self.assertIn("phases", self.refused("inspect", self.package, "--tile", 0, "--phase", 999, code=2, kind="usage"))
        self.refused("inspect", self.package, "--phase", 0, code=2, kind="usage")
        self.refused("inspect", self.package, "--assembly", code=2, kind="usage")
        self.refused("inspect", self.package, "--tile", 0, "--phase", 0, "--assembly", code=2, kind="usage")
        self.refused("inspect", self.package, "--tile", -1, code=2, kind="usage")


if __name__ == "__main__":
    unittest.main()
