"""The seed's two command lines: one layer, or with TILEWRIGHT_LONG=1 word for word (24 and 27 layers).

`seed_command_test.py SeedCommands` for the first, `seed_command_test.py FullDepth` for the second.
"""
import json
import os
import unittest

from harness import SOURCE, TempDir, ipu_e2e, long_test, values


class Runs(TempDir):
    def run_line(self, model, layers, timeout, cosine=0.99):
        folder = self.folder / "artifacts"
        done = ipu_e2e(SOURCE / "configs" / "c600.toml", "--sdk", os.environ.get("POPLAR_SDK_ENABLED", "/opt/poplar"),
                       "--runtime-source", "device/static_runtime.S", "--workload", "siglip-vit-benchmark", *model,
                       "--vit-layers", layers, "--vit-batch", 2, "--fuse-qkv", "--fp8-scale=-4", "--capacity-baseline",
                       "--optimization-steps", 0, "--exchange-stream-words", 1024, "--no-profile", "--reference-run",
                       "--reference-fp32", "--reference-inferences", 2, "--device-lock", folder / "device.lock",
                       "--memory-profile-directory", folder / "memory", "--package", folder / "model.ipuexe",
                       "--json", folder / "result.json", check=0, timeout=timeout, cwd=self.folder,
                       env={**os.environ, "RAYON_NUM_THREADS": "12", "RUST_LOG": "info"})
        lines = done.stdout.splitlines()
        for k in (1, 2):
            self.assertIn(f"referenceInference={k} numericalTest=PASS", lines)
        self.assertEqual(lines[-1], f"package={folder / 'model.ipuexe'} hardwareTest=PASS")
        print("\n" + "\n".join(line for line in lines if "=" in line))
        self.assertGreaterEqual(float(values(done.stdout)["referenceMinimumCosineSimilarity"]), cosine)
        calls = json.loads((folder / "result.json").read_text())["run"]["calls"]
        self.assertEqual(calls[1]["same_as_call"], 0)


class SeedCommands(Runs):
    def test_pe(self):
        self.run_line(["--vit-model", "pe-core-l14-capacity"], 1, 1500)

    def test_siglip(self):
        self.run_line([], 1, 1500)


@long_test
class FullDepth(Runs):
    def test_pe(self):
        self.run_line(["--vit-model", "pe-core-l14-capacity"], 24, 5000, cosine=0.993)

    def test_siglip(self):
        self.run_line([], 27, 5000, cosine=0.993)


if __name__ == "__main__":
    unittest.main()
