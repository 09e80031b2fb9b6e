"""One layer of each model at full width on 1,472 tiles: the issue's main runs (slow)."""
import unittest

from harness import PHOTOS, result


class FullWidth(unittest.TestCase):
    def run_model(self, model):
        both = result("e2e", model, "--layers", 1, "--calls", 2, "--reference", "both", "--image",
                      PHOTOS / "astronaut.png", timeout=1500)
        run = both["run"]
        self.assertTrue(run["pass"])
        self.assertTrue(run["exact_match"])
        self.assertGreater(min(c["cosine_min"] for c in run["calls"]), 0.99)
        self.assertEqual(run["calls"][1]["same_as_call"], 0)
        self.assertLess(both["compile"]["host_peak_rss_bytes"], 8 << 30)
        scheduled = both["compile"]["cycles"]["scheduled"]
        self.assertLess(abs(run["simulated"]["cycles_per_call"] - scheduled) / scheduled, 0.03)

    def test_siglip(self):
        self.run_model("siglip-so400m")

    def test_pe(self):
        self.run_model("pe-core-l14-capacity")


if __name__ == "__main__":
    unittest.main()
