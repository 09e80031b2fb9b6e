"""`tilewright inspect`, `problem` and `check`: a package as text and JSON, its problems and solutions, errors."""
import json
import os
import subprocess
import sys
import unittest

from harness import BIN, SMALL, SOURCE, TempDir, result, tilewright

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


class Problems(WithPackage):
    def problem(self, *choice):
        file = self.folder / "problem.json"
        tilewright("problem", self.package, *choice, "-o", file, "--progress", "never", check=0)
        return json.loads(file.read_text())

    def verdict(self, problem, code):
        file = self.folder / "solved.json"
        file.write_text(json.dumps(problem))
        answer = result("check", file, check=code)["check"]
        self.assertEqual(answer["legal"], code == 0)
        self.assertEqual(answer["legal"], answer["broken"] == [])
        return answer

    def test_our_placements_are_legal_and_stand_in_the_package(self):
        for tile in (0, 1, 64, 194):
            problem = self.problem("--tile", tile)
            self.assertEqual(self.verdict(problem, 0)["shared_weight"], 0)
            self.assertEqual(problem["tile"], tile)
            bindings = result("inspect", self.package, "--tile", tile)["inspect"]["tile"]["bindings"]
            addresses = set(problem["solution"]["addresses"])
            for binding in bindings:  # members of a sequence stand behind the first
                inside = any(a <= binding["address"] < a + r["bytes"]
                             for a, r in zip(problem["solution"]["addresses"], problem["requests"]))
                self.assertTrue(inside, binding)
            self.assertEqual(len(addresses) == 0, tile == 1)

    def test_an_altered_address_is_named(self):
        problem = self.problem("--tile", 0)
        addresses, requests = problem["solution"]["addresses"], problem["requests"]

        def broken(request, address):
            altered = addresses[:]
            altered[request] = address
            return " ".join(self.verdict({**problem, "solution": {"addresses": altered}}, 5)["broken"])

        resident = next(i for i, r in enumerate(requests) if r["last"] is None)
        other = next(i for i, r in enumerate(requests) if r["first"] == 0 and i != resident)
        interleaved = next(i for i, r in enumerate(requests) if r["class"] == "interleaved")
        self.assertIn("overlap", broken(resident, addresses[other]))
        self.assertIn("no multiple of", broken(resident, addresses[resident] + 2))
        self.assertIn("outside interleaved memory", broken(interleaved, problem["free"][0]["begin"]))
        self.assertIn("outside what it may use", broken(resident, problem["aperture"][0]["begin"]))
        self.assertIn("outside what it may use", broken(resident, 0x5C000))
        pair = problem["separate"][0]
        self.assertIn("share memory element", broken(pair["a"], addresses[pair["b"]]))

    def test_an_altered_cycle_is_named(self):
        problem = self.problem("--phase", 9)
        own = self.verdict(problem, 0)
        self.assertGreaterEqual(own["horizon"], own["bound_words"])
        messages = problem["solution"]["messages"]

        def broken(change, code=5):
            altered = json.loads(json.dumps(problem))
            change(altered["solution"]["messages"])
            return " ".join(self.verdict(altered, code)["broken"])

        by_source = {}
        for i, m in enumerate(messages):
            by_source.setdefault(m["source"], []).append(i)
        first, second = next(sorted(of, key=lambda i: messages[i]["start"])[:2] for of in by_source.values() if len(of) > 1)
        self.assertIn("(S1)", broken(lambda m: m[second].update(start=m[first]["start"])))
        self.assertIn("before its row (R4)", broken(lambda m: m[0].update(start=0)))
        self.assertIn("outside memory", broken(lambda m: m[0].update(address=0xE8000)))
        self.assertIn("never gets", broken(lambda m: m.pop()))
        self.assertIn("the last possible", broken(lambda m: m[0].update(start=1 << 30)))
        self.assertIn("(R1)", broken(lambda m: m[first].update(start=m[first]["start"] + 1)))

    def test_the_example_solver_is_legal(self):
        solved = self.folder / "solved.json"
        for tile in (0, 2, 1408):
            self.problem("--tile", tile)
            subprocess.run([sys.executable, SOURCE / "scripts/example_solver.py", self.folder / "problem.json", solved], check=True)
            self.assertEqual(json.loads(solved.read_text())["solution"]["solver"], "first fit")
            self.assertIn("legal", tilewright("check", solved, check=0).stdout)

    def test_a_model_that_does_not_fit_leaves_its_problem(self):
        dumped = self.folder / "deep" / "dump"
        error = result("compile", MODEL, "--small", "--layers", 12, "--tiles", 4, "-o", self.folder / "n.ipuexe",
                       "--dump-problems", dumped, "--progress", "never", check=3)["error"]
        file = dumped / f"placement-tile-{error['physical_tile']}.json"
        self.assertEqual(os.listdir(dumped), [file.name])
        problem = json.loads(file.read_text())
        self.assertIsNone(problem["solution"])
        step = error["step"]
        live = [r for r in problem["requests"] if r["first"] <= step and (r["last"] is None or r["last"] >= step)]
        for tensor in error["live"]:
            self.assertIn((tensor["tensor"], tensor["bytes"]), [(r["tensor"], r["bytes"]) for r in live])
        self.assertGreaterEqual(sum(r["bytes"] for r in live), error["needed_bytes"])
        self.assertIn("nothing to check", self.refused("check", file, code=4, kind="file"))
        # Refused by a bound before placement: said, and nothing written.
        done = tilewright("compile", MODEL, "--layers", 1, "--tiles", 8, "-o", self.folder / "n.ipuexe", "--dump-problems",
                          self.folder / "none", "--progress", "never", check=3)
        self.assertIn("none: not refused by placement", done.stdout)
        self.assertFalse((self.folder / "none").exists())

    def test_malformed_files(self):
        problem = self.problem("--tile", 0)
        problem["requests"][3]["alignment"] = 3
        problem["requests"][4]["bytes"] = -4
        bad = self.folder / "bad.json"
        bad.write_text(json.dumps(problem))
        done = tilewright("check", bad, check=4)
        self.assertIn("$.requests[3].alignment: is no power of two", done.stderr)
        self.assertIn("$.requests[4].bytes: is no whole number", done.stderr)
        self.assertIn("is no JSON", self.refused("check", self.package, code=4, kind="file"))
        self.refused("check", self.folder, code=4, kind="io")
        self.refused("check", self.folder / "missing.json", code=4, kind="io")
        self.refused("problem", self.package, "--tile", 0, "-o", self.folder / "no" / "p.json", code=4, kind="io")
        strange = os.fsencode(self.folder) + b"/\x89.json"
        done = subprocess.run([BIN / "tilewright", "check", strange, "--json", "-"], capture_output=True)
        self.assertEqual(done.returncode, 4, done.stderr)

    def test_what_is_not_there(self):
        out = ["-o", self.folder / "p.json"]
        self.refused("problem", self.package, *out, code=2, kind="usage")
        self.refused("problem", self.package, "--tile", 0, "--phase", 0, *out, code=2, kind="usage")
        self.refused("problem", self.package, "--tile", 1472, *out, code=2, kind="usage")
        self.refused("problem", self.package, "--tile", 0, "-o", "-", code=2, kind="usage")  # with --json -
        self.refused("problem", self.package, "--phase", 999, *out, code=2, kind="usage")
        self.assertFalse((self.folder / "p.json").exists())

    def test_the_same_bytes_on_every_run(self):
        text = tilewright("problem", self.package, "--phase", 3, "-o", "-", check=0).stdout
        self.assertEqual(text, tilewright("problem", self.package, "--phase", 3, "-o", "-", "--threads", 1, check=0).stdout)
        self.assertEqual(json.loads(text)["phase"], 3)


if __name__ == "__main__":
    unittest.main()
