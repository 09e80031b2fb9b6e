"""Vision transformers as exporters write them, through import, compilation and simulation: small ones bit for bit, and at
full depth (long)."""
import os
import unittest

from harness import TempDir, long_test, result

if os.environ.get("TILEWRIGHT_LONG"):  # python3-onnx is installed for long tests only
    from exports import Size, siglip, vit


@long_test
class Exports(TempDir):
    def run_file(self, model, *options):
        both = result("e2e", model, *options, timeout=7200)
        self.assertTrue(both["run"]["pass"])
        self.assertGreater(both["run"]["calls"][0]["cosine_min"], 0.99)
        compiled, call = both["compile"], both["run"]["calls"][0]
        print(f'\n{model.name} {" ".join(options)}: {compiled["cycles"]["scheduled"]:,.0f} cycles scheduled, '
              f'cosine {call["cosine_min"]:.6f}, fragments {compiled["exchange"]["fragments_max"]:,}, '
              f'table {compiled["exchange"]["table_bytes_max"]:,} B', flush=True)
        return both

    def test_small(self):
        few = ["--tiles", "64", "--precision", "fp16", "--reference", "both"]
        for batch in (1, 2):
            for write, side in ((vit, 8), (siglip, 9)):  # 9 = 4 x 2 + 1: a row and a column that no patch reads
                model = self.folder / f"{write.__name__}_{batch}.onnx"
                write(model, Size(layers=3, width=32, heads=4, hidden=72, patch=2, side=side, batch=batch))
                self.assertTrue(self.run_file(model, *few)["run"]["exact_match"])

    def test_vit_base(self):
        model = self.folder / "vit_base.onnx"
        vit(model, Size(layers=12, width=768, heads=12, hidden=3072, patch=16, side=224))
        self.run_file(model, "--precision", "fp8", "--policy", "default")
        self.run_file(model, "--precision", "fp8", "--policy", "capacity")

    def test_vit_large(self):
        model = self.folder / "vit_large.onnx"
        vit(model, Size(layers=24, width=1024, heads=16, hidden=4096, patch=14, side=336, batch=2))
        self.run_file(model, "--precision", "fp8", "--policy", "capacity")

    def test_siglip(self):
        model = self.folder / "siglip.onnx"
        siglip(model, Size(layers=27, width=1152, heads=16, hidden=4304, patch=14, side=384))
        self.run_file(model, "--precision", "fp8", "--policy", "default")


if __name__ == "__main__":
    unittest.main()
