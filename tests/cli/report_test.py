"""`tilewright report`: its numbers against those of compile and run, its page in a browser, its errors."""
import json
import os
import pathlib
import shutil
import subprocess
import unittest

from harness import SMALL, SOURCE, TempDir, long_test, result, tilewright
from trace_rules import check_cycles, check_form, nanoseconds

def travel(sender, receiver):
    """hardware.md 2.2: cycles from a word's send to the receiver's mux, less one."""
    def fields(p):
        return p >> 6, (p >> 2) & 15, (p >> 1) & 1, p & 1
    def fold(c):
        return c if c < 8 else 15 - c
    rs, cs, _, es = fields(sender)
    rd, cd, hd, ed = fields(receiver)
    k = (2 if cd >> 3 == ed else 4) if hd else (1 if cd >> 3 == ed else 5)
    route = 6 * (fold(cd) - fold(cs) - ((cs >> 3) ^ es)) + k
    turn = (cs & 7) + 1 if cs >> 3 == cd >> 3 else 16 - (cs & 7)
    return (cs & 8) - cd + 4 * (fold(cs) - fold(cd)) + turn + 2 * (rs - rd) + abs(route) - 31


WEB = pathlib.Path(os.environ.get("TW_WEB", "build/release/web"))


def read_in_browser(test, script, report, pictures, *others, count):
    """What tests/web/SCRIPT says of a report; it leaves `count` pictures."""
    shutil.rmtree(pictures, ignore_errors=True)
    pictures.mkdir(parents=True)
    done = subprocess.run(["node", SOURCE / "tests/web" / script, WEB, report, pictures, *others], capture_output=True,
                          text=True, timeout=1200)
    test.assertEqual(done.returncode, 0, done.stdout + done.stderr)
    test.assertEqual(len(list(pictures.iterdir())), count)
    return done.stdout


@long_test
class FullDepth(TempDir):
    def test_pe(self):
        """The probe at full depth, batch two, beside its default policy."""
        for policy in ("default", "capacity"):
            tilewright("compile", "pe-core-l14-capacity", "--batch", 2, "--policy", policy, "-o", self.folder / f"{policy}.ipuexe",
                       "--progress", "never", check=0)
        report = self.folder / "report"
        tilewright("report", self.folder / "default.ipuexe", "-o", self.folder / "other", check=0)
        tilewright("report", self.folder / "capacity.ipuexe", "--compare", self.folder / "other" / "report.json", "-o", report, check=0)
        self.assertLessEqual((report / "report.html").stat().st_size, 25 << 20)
        print(read_in_browser(self, "report.mjs", report, WEB / "screenshots-pe", self.folder / "other" / "report.json", count=32))


class Reports(TempDir):
    def setUp(self):
        super().setUp()
        self.package, self.report = self.folder / "small.ipuexe", self.folder / "report"

    def make(self, *options, compare=None):
        compiled = result("compile", "siglip-so400m", *SMALL, *options, "-o", self.package)["compile"]
        tilewright("report", self.package, "-o", self.report, *(["--compare", compare] if compare else []), check=0)
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
        of_list = [sum(b for b, p in zip(l["bytes"], l["parameter"]) if p) for l in report["lists"]]
        self.assertEqual(sum(of_list[l] for l in tiles["list"]), memory["parameter_bytes_total"])
        # Tensors may use what is no area: the summary's budget. Live and free bytes of a tile are all of it.
        self.assertEqual(tiles["peak_bytes"][worst] + tiles["free_bytes"][worst], memory["budget_bytes"])
        # Every word sent is received at least once; senders and receivers are those of the phase.
        self.assertEqual(sum(tiles["messages"]), sum(report["phases"]["messages"]))
        simulated = result("run", self.package, "--reference", "none")["run"]["simulated"]
        self.assertEqual(sum(report["phases"]["exchange_cycles"]), simulated["exchange_cycles"])
        kernels = sum(tiles["kernel_cycles"]) / len(tiles["kernel_cycles"])
        self.assertLess(kernels, simulated["compute_cycles"])  # which has the supervisor's words and patches, too
        self.assertGreater(kernels, 0.5 * simulated["compute_cycles"])

    # Whatever a tile sends is heard by somebody at the right cycle, and nothing else is heard.
    def test_windows_and_sends_of_a_phase_agree(self):
        compiled, written = self.make("--layers", 2)
        report, exchange = written["report"], written["report"]["exchange"]
        phases, fabric = report["phases"], report["fabric"]
        for phase, rows in enumerate(exchange["phases"]):
            events, sent_at = dict(zip(rows["tile"], rows["events"])), {}
            received, windows = {}, 0
            for i, tile in enumerate(rows["tile"]):
                columns = [exchange[key][rows[key][i]] for key in ("gaps", "words", "sources")]
                buffers, at = report["lists"][report["tiles"]["list"][tile]], 0
                alive = {t for t, a, b in zip(buffers["tensor"], buffers["first"], buffers["last"]) if a <= phases["step"][phase] <= b}
                self.assertLessEqual(set(exchange["tensors"][rows["tensors"][i]][1::2]), alive)
                for gap, words, source in zip(*columns):
                    begin = at + gap
                    at = begin + words
                    first = begin - 1 - travel(source, tile)
                    sent_at.setdefault(source, set()).update(range(first, first + words))
                received[tile] = sum(columns[1])
                windows += len(columns[0])
                self.assertLessEqual(at, rows["events"][i])
            self.assertEqual({t: len(cycles) for t, cycles in sent_at.items()},
                             {t: n for t, n in zip(rows["tile"], rows["sent"]) if n > 0}, f"phase {phase}")
            for tile, cycles in sent_at.items():
                self.assertTrue(0 <= min(cycles) and max(cycles) < events[tile])
            self.assertEqual(windows, phases["windows"][phase])
            self.assertEqual(sum(rows["messages"]), phases["messages"][phase])
            self.assertEqual(max(rows["events"]), phases["horizon"][phase])
            self.assertEqual(max(rows["bytes"]), phases["row_bytes_max"][phase])
            self.assertEqual(max(max(a, received[t]) for t, a in zip(rows["tile"], rows["sent"])), phases["bound"][phase])
        self.assertAlmostEqual(sum(phases["horizon"]) / sum(phases["bound"]), compiled["exchange"]["horizon_over_bound_mean"], places=9)
        for sender, receiver in ((0, 1), (53, 0), (1471, 704), (260, 32)):
            half = fabric["half"][receiver]
            self.assertEqual(fabric[f"send_time_{half}"][sender] + fabric["receive_time"][receiver] +
                             abs(fabric["receive_route"][receiver] - fabric["send_route"][sender]), travel(sender, receiver))

    def test_cycles_and_products_by_operation(self):
        compiled, written = self.make("--layers", 3, "--batch", 2)
        report = written["report"]
        phases, kernels, steps = report["phases"], report["kernels"], report["steps"]
        paths = [steps["paths"][steps["path"][s - 1]] for s in phases["step"]]
        self.assertEqual(report["cycles"], compiled["cycles"]["scheduled"])
        cycles = dict.fromkeys(paths, 0)
        for path, before, exchange in zip(paths, phases["before_cycles"], phases["exchange_cycles"]):
            cycles[path] += before + exchange
        cycles[paths[-1]] += report["cycles_after"]
        executed = dict.fromkeys(paths, 0)
        for phase, macs in zip(kernels["phase"], kernels["macs"]):
            executed[paths[min(phase, len(paths) - 1)]] += macs
        for operation in compiled["cycles"]["operations"]:
            path, useful = operation["path"], operation["macs"]
            self.assertEqual(cycles.pop(path), operation["scheduled"], path)
            if useful:
                self.assertLessEqual(useful, executed[path], path)
                self.assertGreater(useful, executed[path] / 8, path)  # panels at most double each extent of the small model
            else:
                self.assertEqual(executed[path], 0, path)
        self.assertEqual(cycles, {})
        macs = result("run", self.package, "--reference", "none")["run"]["macs"]
        self.assertEqual(sum(o["macs"] for o in compiled["cycles"]["operations"]), macs)
        for name, peak in zip(kernels["names"], kernels["peak_macs"]):
            self.assertEqual(peak, {"GemmF8": 128, "GemmF16": 64}.get(name, 0), name)

    def test_the_page_shows_the_numbers_of_the_json(self):
        self.make("--policy", "capacity")
        other = self.report.rename(self.folder / "other") / "report.json"
        self.make("--layers", 2, compare=other)
        read_in_browser(self, "report.mjs", self.report, WEB / "screenshots", other, count=32)

    def refuse(self):
        """A layer at full width on 64 tiles, refused by placement, with its report."""
        done = tilewright("compile", "siglip-so400m", "--layers", 1, "--tiles", 64, "--fragment-limit", 100000, "--relays", "off",
                          "--report", self.report, "-o", self.package, "--json", self.folder / "error.json", "--progress", "never",
                          check=3)
        self.assertIn("report.html", done.stdout)
        self.assertFalse(self.package.exists())
        return json.loads((self.folder / "error.json").read_text())["error"], json.loads((self.report / "report.json").read_text())

    def test_a_model_that_does_not_fit(self):
        error, written = self.refuse()
        self.assertEqual(written["error"], error)
        self.assertFalse(written["compile"]["fits"])
        self.assertEqual(written["compile"]["model"]["name"], "siglip-so400m")
        report = written["report"]
        self.assertEqual(report["phases"]["step"], [])
        tile, step = error["physical_tile"], error["step"]
        self.assertEqual(report["steps"]["paths"][report["steps"]["path"][step - 1]], error["step_path"])
        held = report["lists"][report["tiles"]["list"][tile]]
        columns = [dict(zip(held, values)) for values in zip(*held.values())]
        alive = [b for b in columns if b["first"] <= step <= b["last"]]
        # The bytes that the message counts are alive there, and some of them found no place.
        self.assertGreaterEqual(sum(b["taken"] for b in alive), error["needed_bytes"])
        names = [report["tensors"][b["tensor"]] for b in alive]
        for t in error["live"]:
            self.assertIn(t["tensor"], names)
        self.assertTrue(any(b["address"] == 0 for b in alive))
        placed = sorted((b for b in alive if b["address"] > 0), key=lambda b: b["address"])
        self.assertTrue(placed)
        for a, b in zip(placed, placed[1:]):
            self.assertLessEqual(a["address"] + a["bytes"], b["address"])

    def test_the_page_of_a_model_that_does_not_fit(self):
        self.refuse()
        read_in_browser(self, "refused.mjs", self.report, WEB / "screenshots-refused", count=16)

    def test_the_trace_takes_the_cycles_of_a_run(self):
        for model, layers in (("siglip-so400m", 3), ("pe-core-l14-capacity", 2)):
            compiled = result("compile", model, *SMALL, "--layers", layers, "-o", self.package)["compile"]
            simulated = result("run", self.package, "--reference", "none", "--calls", 2)["run"]["simulated"]
            tilewright("report", self.package, "-o", self.report, "--trace-tile", 5, "--trace-tile", 0, check=0)
            report = json.loads((self.report / "report.json").read_text())["report"]
            trace = json.loads((self.report / "trace.json").read_text())
            cycles = simulated["cycles_per_call"]
            self.assertEqual(compiled["cycles"]["scheduled"], cycles)
            self.assertEqual(trace["otherData"]["cycles"], cycles)
            slices, _ = check_form(self, trace)
            self.assertEqual(len(slices), 3)
            check_cycles(self, slices, cycles, report["device"]["clock_hz"])
            tracks = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"]
            self.assertEqual(tracks, ["device", "tile 5", "tile 0"])
            exchange = sum(s[2]["args"]["cycles"] for s in slices[0, 1] if s[2]["cat"] == "exchange")
            self.assertEqual(exchange, simulated["exchange_cycles"])
            for track, tile in ((1, 5), (2, 0)):
                kernels = sum(s[2]["args"]["cycles"] for s in slices[0, track] if s[2]["cat"] == "kernel")
                self.assertEqual(kernels, report["tiles"]["kernel_cycles"][tile])
                live = [sum(e["args"].values()) for e in trace["traceEvents"]
                        if e["ph"] == "C" and e["name"] == f"live bytes of tile {tile}"]
                self.assertEqual(max(live), report["tiles"]["peak_bytes"][tile])

    def test_another_reader_of_the_format_sees_the_same_slices(self):
        self.make("--layers", 2)
        seen = self.folder / "seen.json"
        done = subprocess.run(["node", SOURCE / "tests/web/trace.mjs", WEB, self.report / "trace.json", seen],
                              capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        seen = json.loads(seen.read_text())
        slices, _ = check_form(self, json.loads((self.report / "trace.json").read_text()))
        self.assertEqual(len(seen["profiles"]), len(slices))
        for profile, track in zip(seen["profiles"], slices.values()):
            self.assertEqual(profile["unit"], "microseconds")
            found = []
            for begin, end in zip(profile["events"][::2], profile["events"][1::2]):
                self.assertEqual((begin["type"], end["type"], begin["frame"]), ("O", "C", end["frame"]))
                name = seen["shared"]["frames"][begin["frame"]]["name"]
                found.append((nanoseconds(begin["at"]), nanoseconds(end["at"]), name.split(" {")[0]))
            self.assertEqual(found, [(s[0], s[1], s[2]["name"]) for s in track])

    def heard(self, tile, phase):
        """{sender: words} of the row of a tile, from its disassembly: the mux turns, a word an event (hardware.md 3.1)."""
        row = result("inspect", self.package, "--tile", tile, "--phase", phase)["inspect"]["phase"]["row"]
        turns = []
        for line in row["lines"]:
            name, _, rest = line["text"].partition(" ")
            fields = [int(f, 0) for f in rest.split(", ")] if name.startswith(("delayxpic", "sendpic")) else []
            if name == "delayxpic":
                turns.append((line["event"] + fields[0], fields[2]))
            elif name == "sendpic" and fields[1] < 2:
                turns.append((line["event"] + 1, fields[2]))
            elif name == "sendpicp":
                turns.append((line["event"] + 1, fields[4] & 0x1FFF))
        words = {}
        for (begin, sender), (end, _) in zip(turns, turns[1:] + [(row["events"], 0)]):
            if sender != 0x640:
                words[sender] = words.get(sender, 0) + end - begin
        return words

    def test_arrows_follow_the_words_between_the_tracks(self):
        self.make("--layers", 2)
        trace = json.loads((self.report / "trace.json").read_text())
        slices, flows = check_form(self, trace)
        tiles = {e["tid"]: int(e["args"]["name"].split()[1]) for e in trace["traceEvents"]
                 if e["name"] == "thread_name" and e["tid"] > 0}
        self.assertGreater(len(tiles), 1)
        phases = json.loads((self.report / "report.json").read_text())["report"]["phases"]
        receiver = 1  # the fullest tile
        wanted = {}
        for phase, iterations in enumerate(phases["iterations"]):
            heard = self.heard(tiles[receiver], phase)
            for track, tile in tiles.items():
                if track != receiver and tile in heard:
                    wanted[track, phase, heard[tile]] = iterations
        found = {}
        for ends in flows:
            if ends["f"]["tid"] == receiver:
                key = (ends["s"]["tid"], ends["f"]["args"]["phase"], ends["f"]["args"]["words"])
                found[key] = found.get(key, 0) + 1
                around = [s[2] for s in slices[0, receiver] if s[0] <= 1000 * ends["f"]["ts"] < s[1]]
                self.assertEqual(around[0]["args"]["phase"], key[1])
        self.assertEqual(found, wanted)
        self.assertIn(2, found.values())  # in a Repeat of two

    def test_all_tiles_are_as_busy_as_in_a_run(self):
        self.make("--layers", 2)
        simulated = result("run", self.package, "--reference", "none")["run"]["simulated"]
        busy, tiles = 0, 1472
        for first in range(0, tiles, 32):
            chosen = [o for t in range(first, first + 32) for o in ("--trace-tile", t)]
            tilewright("report", self.package, "--trace", self.folder / "t.json", *chosen, check=0)
            for e in json.loads((self.folder / "t.json").read_text())["traceEvents"]:
                if e["ph"] == "B" and e["tid"] > 0 and e["cat"] in ("kernel", "supervisor", "row setup"):
                    busy += e["args"]["cycles"]
        self.assertEqual(busy // tiles, simulated["compute_cycles"])

    def test_the_trace_alone(self):
        self.make()
        trace = self.folder / "made/for/it.json"
        written = result("report", self.package, "--trace", trace)["report"]
        self.assertEqual(trace.read_bytes(), (self.report / "trace.json").read_bytes())
        self.assertEqual((written["html"], written["json"]), (None, None))
        self.assertEqual(written["trace"], {"file": str(trace), "bytes": trace.stat().st_size})
        other = self.folder / "other"
        tilewright("report", self.package, "-o", other, "--trace", trace, check=0)
        self.assertEqual(sorted(p.name for p in other.iterdir()), ["report.html", "report.json"])
        tilewright("report", self.package, "--trace", trace, *["--trace-tile", 1] * 33, check=2)

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

    def test_what_cannot_be_compared_is_refused(self):
        self.make()
        written = (self.report / "report.json").read_text()
        texts = {"cut": written[:5000], "foreign": '{"a": 1}', "newer": written.replace('"schema_version":1', '"schema_version":2', 1),
                 "damaged": written.replace('"peak_bytes":[', '"peak_bytes":["x",', 1), "text": "no JSON", "empty": ""}
        for name, text in texts.items():
            file = self.folder / f"{name}.json"
            file.write_text(text)
            self.assertIn(file.name, self.refused(self.package, "--compare", file, "-o", self.folder / "out", kind="file"))
        self.refused(self.package, "--compare", self.folder / "none.json", "-o", self.folder / "out", kind="io")
        self.assertFalse((self.folder / "out").exists())
        tilewright("report", self.package, "--trace", self.folder / "trace.json", "--compare", self.report / "report.json", check=2)
        # A package instead of its report gives the same page, and the numbers of this one stay as they are.
        pages = []
        for number, other in enumerate((self.report / "report.json", self.package)):
            out = self.folder / str(number)
            tilewright("report", self.package, "--compare", other, "-o", out, check=0)
            pages.append((out / "report.html").read_text())
            self.assertEqual((out / "report.json").read_text(), written)
        self.assertEqual(*pages)

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
