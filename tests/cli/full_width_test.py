"""Full width on 1,472 tiles: one layer of each model, and jobs that are far too large (slow)."""
import resource
import unittest

from harness import PHOTOS, TempDir, result


class FullWidth(TempDir):
    def run_model(self, model):
        both = result("e2e", model, "--layers", 1, "--calls", 2, "--reference", "both", "--image",
                      PHOTOS / "astronaut.png", timeout=1500)
        run = both["run"]
        self.assertTrue(run["pass"])
        self.assertTrue(run["exact_match"])
        self.assertGreater(min(c["cosine_min"] for c in run["calls"]), 0.99)
        self.assertEqual(run["calls"][1]["same_as_call"], 0)
        self.assertLess(both["compile"]["host_peak_rss_bytes"], 8 << 30)
        self.assertEqual(run["simulated"]["cycles_per_call"], both["compile"]["cycles"]["scheduled"])

    def test_siglip(self):
        self.run_model("siglip-so400m")

    def test_pe(self):
        self.run_model("pe-core-l14-capacity")

    def test_phases_stay_near_their_bound(self):
        compiled = result("compile", "siglip-so400m", "--layers", 1, "--batch", 2, "--policy", "capacity", "-o",
                          self.folder / "siglip.ipuexe", timeout=1500)["compile"]
        self.assertLessEqual(compiled["exchange"]["horizon_over_bound_mean"], 1.35)
        self.assertLessEqual(compiled["exchange"]["horizon_over_bound_worst"], 1.7)


class FarTooLarge(unittest.TestCase):
    def refuse(self, option, value):
        """Seconds of the processor, since the machine may be busy with other things."""
        for model in ("siglip-so400m", "pe-core-l14-capacity"):
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            error = result("e2e", model, option, value, "--progress", "never", check=3, timeout=900)["error"]
            self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, 20, model)
            self.assertIn(error["kind"], ("capacity", "contiguity", "fragments"))
            self.assertEqual(error["missing_bytes"], error["needed_bytes"] - error["available_bytes"])
            self.assertGreater(error["missing_bytes"], 0)
            self.assertTrue(error["suggestions"])

    def test_batch(self):
        self.refuse("--batch", 64)
        self.refuse("--batch", 256)

    def test_layers(self):
        self.refuse("--layers", 1000)

    def test_image_size(self):
        self.refuse("--image-size", 1400)


if __name__ == "__main__":
    unittest.main()
