"""FP8 scales by role from a file, and the patch embedding in FP16: the device equals the exact interpreter bit for bit,
and a file that does not suit the model is refused before anything is written."""
import json
import unittest

from harness import SMALL, TempDir, ipu_e2e, result, tilewright

SIGLIP, PE = "siglip-so400m", "pe-core-l14-capacity"
ENCODER = {"attention.qkv": -2, "attention.output": -4, "mlp.up": 1, "mlp.down": -1}
POOL = {"attention.query": -12, "attention.kv": -1, "attention.output": -5, "mlp.up": -5, "mlp.down": -6}
# The scales of models.md B.4; those of random weights differ, so figures against FP32 mean nothing here.
TRAINED = {**{f"encoder.layer.{role}": s for role, s in ENCODER.items()},
           **{f"map.{role}": s for role, s in POOL.items()}}
# Distinct scales near those that suit random weights.
MIXED = {role: -3 - i % 3 for i, role in enumerate(TRAINED)}
UNIFORM = {role: -3 for role in [*TRAINED, "embedding"]}


class Calibrated(TempDir):
    def write(self, scales, fp16_embedding=True, name="c.json", **more):
        file = self.folder / name
        file.write_text(json.dumps({"shared_operand_scale": True, "fp16_embedding": fp16_embedding, **more, "scales": {
            role: {"activation": s, "weight": s} for role, s in scales.items()}}))
        return file


class Jobs(Calibrated):
    def test_mixed_scales_equal_the_exact_interpreter(self):
        for model, scales in ((SIGLIP, MIXED), (PE, {**MIXED, "projection": -5})):
            file = self.write(scales)
            for options in (["--layers", 1], ["--layers", 2, "--batch", 2, "--policy", "capacity"]):
                with self.subTest(f"{model} {options}"):
                    run = result("e2e", model, *SMALL, *options, "--calibration", file, "--reference", "both",
                                 "--cosine-threshold", "0.97")["run"]
                    self.assertTrue(run["pass"] and run["exact_match"])
                    plain = result("e2e", model, *SMALL, *options, "--reference", "fp32", "--cosine-threshold", "0.9")
                    self.assertNotEqual(run["calls"][0]["cosine_min"], plain["run"]["calls"][0]["cosine_min"])

    def test_scales_of_a_trained_model(self):
        run = result("e2e", SIGLIP, *SMALL, "--calibration", self.write(TRAINED), "--reference", "exact", check=None)["run"]
        self.assertTrue(run["exact_match"])

    def test_the_fp16_embedding_alone(self):
        job = ["e2e", SIGLIP, *SMALL, "--reference", "both", "--cosine-threshold", "0.9"]
        errors, package = [], self.folder / "p.ipuexe"
        for more in (["--fp16-embedding"], []):
            self.assertTrue(result(*job, *more, "-o", package)["run"]["exact_match"])
            first = result("compare", package)["compare"]["operations"][0]
            self.assertEqual(first["path"], "vit.embedding")
            errors.append(first["max_fp32_error"])
        # An operand is rounded to 11 significant bits instead of 4.
        self.assertLess(20 * errors[0], errors[1])

    def test_one_scale_is_the_same_job_as_fp8_scale(self):
        one, other = self.folder / "one.ipuexe", self.folder / "other.ipuexe"
        tilewright("compile", SIGLIP, *SMALL, "--fp8-scale", -3, "-o", one, check=0)
        tilewright("compile", SIGLIP, *SMALL, "--calibration", self.write(UNIFORM, fp16_embedding=False), "-o", other,
                   check=0)
        self.assertEqual(one.read_bytes(), other.read_bytes())
        tilewright("compile", SIGLIP, *SMALL, "--calibration", self.write(MIXED), "-o", other, check=0)
        self.assertNotEqual(one.read_bytes(), other.read_bytes())

    def test_the_package_carries_the_scales(self):
        file, package = self.write(MIXED), self.folder / "p.ipuexe"
        tilewright("compile", SIGLIP, *SMALL, "--calibration", file, "-o", package, check=0)
        file.unlink()
        self.assertTrue(result("run", package, "--reference", "exact")["run"]["exact_match"])
        tilewright("compare", package, check=0)

    def test_fit_keeps_calibrated_cases_apart(self):
        fit = ["fit", SIGLIP, "--small", "--tiles", 64, "--cache", self.folder / "cache", "--progress", "never"]
        cases = [result(*fit, *more) for more in ([], ["--fp16-embedding"], ["--calibration", self.write(MIXED)])]
        bounds = [c["fit"]["rows"][0]["bound"]["parameter_bytes"] for c in cases]
        self.assertEqual(bounds[1] - bounds[0], 588 * 144)  # a byte more for each weight of the embedding
        self.assertEqual(bounds[2], bounds[1])

    def test_the_seed_command_line(self):
        done = ipu_e2e("--vit-small", "--tiles", 64, "--fuse-qkv", "--optimization-steps", 0, "--reference-run",
                       "--reference-calibration", self.write(MIXED), "--progress", "never", check=0)
        self.assertIn("numericalTest=PASS", done.stdout)


class Refusals(Calibrated):
    def refuse(self, file, *options, model=SIGLIP, code=4):
        package = self.folder / "p.ipuexe"
        done = tilewright("compile", model, *SMALL, "--calibration", file, *options, "-o", package, check=code)
        self.assertFalse(package.exists())
        return done.stderr

    def test_roles_of_another_model(self):
        text = self.refuse(self.write(MIXED), model=PE)
        self.assertIn('"projection" is missing', text)
        text = self.refuse(self.write(MIXED), "--no-fuse-qkv")
        for role in ("query", "key", "value"):
            self.assertIn(f'"encoder.layer.attention.{role}" is missing', text)
        self.assertIn('"encoder.layer.attention.qkv" is no role', text)

    def test_unequal_scales_and_ranges(self):
        file = self.write({**MIXED, "map.mlp.up": 16})
        self.assertIn("outside -16..15", self.refuse(file))
        file.write_text(file.read_text().replace('"weight": -3', '"weight": -2'))
        self.assertIn("unequal operand scales are not built", self.refuse(file))
        self.refuse(self.folder / "none.json")
        self.refuse(self.folder)

    def test_excluded_options(self):
        file = self.write(MIXED)
        self.assertIn("--fp8-scale", self.refuse(file, "--fp8-scale", "-3", code=2))
        self.assertIn("fp16", self.refuse(file, "--precision", "fp16", code=2))
        ipu_e2e("--vit-small", "--fp8-scale=-4", "--reference-calibration", file, check=2)
        error = ipu_e2e("--vit-small", "--reference-calibration", self.write({}), check=4)
        self.assertIn("is missing", error.stderr)


if __name__ == "__main__":
    unittest.main()
