"""End-to-end runs of the small models: numerics, residency, precision, determinism."""
import hashlib
import json
import unittest

from harness import PHOTOS, SMALL, TempDir, result, tilewright

MODELS = ["siglip-so400m", "pe-core-l14-capacity", "pe-core-l14"]


class SmallModels(unittest.TestCase):
    def test_batch_two_three_calls_equal_the_exact_interpreter(self):
        for model in MODELS:
            with self.subTest(model):
                run = result("e2e", model, *SMALL, "--batch", 2, "--calls", 3, "--reference", "both",
                             "--cosine-threshold", "0.97")["run"]
                self.assertTrue(run["pass"])
                self.assertTrue(run["exact_match"])
                self.assertEqual([c["same_as_call"] for c in run["calls"]], [None, 0, 0])

    def test_images_a_a_b_b_a_a(self):
        a, b = PHOTOS / "astronaut.png", PHOTOS / "coffee.png"
        images = [x for f in (a, a, b, b, a, a) for x in ("--image", f)]
        for model in MODELS:
            with self.subTest(model):
                run = result("e2e", model, *SMALL, "--batch", 2, "--calls", 3, "--reference", "both",
                             "--cosine-threshold", "0.97", *images)["run"]
                self.assertTrue(run["pass"])
                self.assertTrue(run["exact_match"])
                self.assertEqual([c["same_as_call"] for c in run["calls"]], [None, None, 0])

    def test_twenty_calls_with_changing_images(self):
        photos = sorted(p for p in PHOTOS.iterdir() if p.suffix in (".png", ".jpg"))[:4]
        order = [0, 1, 0, 2, 3, 3, 1, 2, 0, 0, 1, 3, 2, 2, 1, 0, 3, 1, 2, 0]
        images = [x for i in order for x in ("--image", photos[i])]
        run = result("e2e", MODELS[0], *SMALL, "--layers", 2, "--calls", 20, "--cosine-threshold", "0.97", *images)["run"]
        self.assertTrue(run["pass"])
        first = [order.index(i) for i in order]
        self.assertEqual([c["same_as_call"] for c in run["calls"]], [None if f == c else f for c, f in enumerate(first)])

    def test_repeat_of_three_layers(self):
        for model in MODELS:
            for batch in (1, 3):
                for precision, threshold in (("fp8", "0.97"), ("fp16", "0.999")):
                    with self.subTest(f"{model} {batch} {precision}"):
                        run = result("e2e", model, *SMALL, "--layers", 3, "--batch", batch, "--precision", precision,
                                     "--reference", "both", "--cosine-threshold", threshold)["run"]
                        self.assertTrue(run["pass"])
                        self.assertTrue(run["exact_match"])

    def test_unfused_projections(self):
        run = result("e2e", MODELS[0], *SMALL, "--no-fuse-qkv", "--reference", "both", "--cosine-threshold", "0.97")["run"]
        self.assertTrue(run["pass"])

    def test_odd_tile_counts(self):
        for tiles in (3, 7, 57):
            with self.subTest(tiles):
                run = result("e2e", MODELS[0], "--small", "--tiles", tiles, "--progress", "never", "--reference", "both",
                             "--cosine-threshold", "0.97")["run"]
                self.assertTrue(run["exact_match"])


class ExactSwitch(TempDir):
    def test_a_dropped_rounding_is_seen_and_named_first(self):
        package = self.folder / "small.ipuexe"
        tilewright("compile", MODELS[0], *SMALL, "-o", package, check=0)
        clean = json.loads(tilewright("compare", package, "--json", "-", check=0).stdout)["compare"]
        self.assertTrue(clean["pass"])
        self.assertIsNone(clean["first_divergence"])
        named = 0
        for operation in [o["path"] for o in clean["operations"]]:
            done = tilewright("compare", package, "--json", "-", "--exact-drop-rounding", operation)
            compare = json.loads(done.stdout)["compare"]
            if compare["first_divergence"] is None:
                continue  # not a product, or this small net does not see the rounding
            self.assertEqual(done.returncode, 5)
            self.assertEqual(compare["first_divergence"]["path"], operation)
            named += 1
            if named == 2:
                break
        self.assertGreater(named, 0, "no product's rounding was seen")
        first = compare["first_divergence"]["path"]
        run = result("run", package, "--reference", "both", "--cosine-threshold", "0.97", "--exact-drop-rounding", first, check=5)["run"]
        self.assertFalse(run["exact_match"])


class Determinism(TempDir):
    def test_package_bytes_do_not_depend_on_threads_or_folder(self):
        digests = set()
        for name, threads in (("a", 1), ("b", 2)):
            folder = self.folder / name
            folder.mkdir()
            tilewright("compile", MODELS[0], *SMALL, "--layers", 2, "--threads", threads, "-o", folder / "p.ipuexe",
                       check=0, cwd=folder)
            digests.add(hashlib.sha256((folder / "p.ipuexe").read_bytes()).hexdigest())
        self.assertEqual(len(digests), 1)

    def test_a_package_serves_any_number_of_calls(self):
        package = self.folder / "p.ipuexe"
        tilewright("compile", MODELS[1], *SMALL, "-o", package, check=0)
        for calls in (1, 4):
            run = result("run", package, "--calls", calls, "--cosine-threshold", "0.97")["run"]
            self.assertTrue(run["pass"])
            self.assertEqual(len(run["calls"]), calls)


class Figures(unittest.TestCase):
    def test_scheduled_and_simulated_cycles_agree(self):
        both = result("e2e", MODELS[0], *SMALL, "--layers", 3, "--cosine-threshold", "0.97")
        self.assertEqual(both["run"]["simulated"]["cycles_per_call"], both["compile"]["cycles"]["scheduled"])
        parts = both["run"]["simulated"]
        self.assertAlmostEqual(parts["compute_cycles"] + parts["exchange_cycles"] + parts["sync_cycles"],
                               parts["cycles_per_call"], delta=2)


if __name__ == "__main__":
    unittest.main()
