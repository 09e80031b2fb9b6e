"""`ipu-e2e-test --reference-fixture`: parameters, inputs and expected outputs from outside. What is expected comes from
fixtures.py, which computes it in double."""
import json
import pathlib
import re
import shutil
import struct
import tempfile
import unittest

import fixtures
from harness import TempDir, ipu_e2e, result, tilewright

SMALL = ["--vit-small", "--tiles", "64", "--optimization-steps", "0", "--progress", "never"]
PE = ["--vit-model", "pe-core-l14-capacity"]
FUSED_PE = fixtures.Model(siglip=False, layers=2, batch=2, fused=True)


class Fixtures(TempDir):
    """A folder with a fixture of two cases of the small SigLIP, fresh for each test."""

    @classmethod
    def setUpClass(cls):
        cls._shared = tempfile.TemporaryDirectory()
        cls.original = fixtures.write(pathlib.Path(cls._shared.name) / "f", fixtures.Model(), cases=2)

    @classmethod
    def tearDownClass(cls):
        cls._shared.cleanup()

    def setUp(self):
        super().setUp()
        self.fixture = shutil.copytree(self.original, self.folder / "fixture")
        self.command = [*SMALL, "--reference-fixture", self.fixture, "--reference-inferences", 2]

    def edit(self, change):
        file = self.fixture / "manifest.json"
        manifest = json.loads(file.read_text())
        change(manifest)
        file.write_text(json.dumps(manifest))

    def scale(self, name, factor, first=None):
        """Multiplies the values of a file, or only some of them."""
        file = self.fixture / name
        values = list(struct.unpack(f"<{file.stat().st_size // 4}f", file.read_bytes()))
        values[:first] = [factor * x for x in values[:first]]
        file.write_bytes(struct.pack(f"<{len(values)}f", *values))


class Passing(Fixtures):
    def check_lines(self, done, cases):
        lines = done.stdout.splitlines()
        self.assertIn("referencePrecision=fp32", lines)
        for k in range(cases):
            self.assertIn(f"referenceInference={k + 1} numericalTest=PASS", lines)
            found = [l for l in lines if l.startswith(f"referenceCase=image {k} ")]
            self.assertEqual(len(found), 1, lines)
            cosine, error, test = re.search(
                r"mappingMinimumCosineSimilarity=(\S+) mappingMaximumAbsoluteError=(\S+) mappingTest=(\S+)", found[0]).groups()
            # models.md C.5: two evaluations of one function that differ in roundings of FP32.
            self.assertGreaterEqual(float(cosine), 0.99999994)
            self.assertLessEqual(float(error), 4.34e-5)
            self.assertEqual(test, "PASS")
        self.assertTrue(lines[-1].endswith("hardwareTest=PASS"))

    def test_siglip_in_fp16_and_fp8(self):
        self.check_lines(ipu_e2e(*self.command, check=0), 2)
        run = json.loads(ipu_e2e(*self.command, "--fp8-scale=-4", "--reference-run", "--json", "-", check=0).stdout)["run"]
        self.assertTrue(run["pass"] and run["exact_match"])
        for k, call in enumerate(run["calls"]):
            self.assertGreater(call["cosine_min"], 0.99)
            self.assertLess(call["cosine_min"], 0.99999)  # FP8 was at work
            self.assertEqual(call["mapping"]["case"], f"image {k}")
            self.assertIsNone(call["same_as_call"])  # each has inputs of its own

    def test_with_scales_by_role(self):
        roles = [f"encoder.layer.attention.{r}" for r in ("query", "key", "value", "output")]
        roles += [f"map.attention.{r}" for r in ("query", "key", "value", "output")]
        roles += [f"{part}.mlp.{r}" for part in ("encoder.layer", "map") for r in ("up", "down")]
        file = self.folder / "scales.json"
        file.write_text(json.dumps({"shared_operand_scale": True, "fp16_embedding": True, "scales": {
            role: {"activation": -4 + i % 2, "weight": -4 + i % 2} for i, role in enumerate(roles)}}))
        self.check_lines(ipu_e2e(*self.command, "--reference-calibration", file, check=0), 2)

    def test_pe_fused_two_layers_two_images(self):
        folder = fixtures.write(self.folder / "pe", FUSED_PE)
        self.check_lines(ipu_e2e(*SMALL, *PE, "--vit-layers", 2, "--vit-batch", 2, "--fuse-qkv", "--reference-fixture", folder,
                                 check=0), 1)

    def test_the_package_names_the_fixture(self):
        package = self.folder / "p.ipuexe"
        first = ipu_e2e(*self.command, "--package", package, check=0)
        again = ipu_e2e(*self.command, "--package", package, "--reuse-package", check=0)
        self.check_lines(again, 2)
        self.assertEqual(first.stdout.splitlines()[-8:], again.stdout.splitlines()[-8:])
        self.assertTrue(result("run", package, "--reference", "both")["run"]["exact_match"])
        # Nobody else's parameters.
        ipu_e2e(*SMALL, "--package", package, "--reuse-package", check=2)
        moved = self.fixture.rename(self.folder / "moved")
        self.assertIn("are gone", tilewright("run", package, check=4).stderr)
        tilewright("run", package, "--weights", moved, check=0)
        (moved / "parameters" / "003.f32").write_bytes(b"\0" * (moved / "parameters" / "003.f32").stat().st_size)
        self.assertIn("has SHA-256", tilewright("run", package, "--weights", moved, check=4).stderr)


class Failing(Fixtures):
    """Exit 5: everything could be read, and the numbers say no."""

    def failed(self):
        out = json.loads(ipu_e2e(*self.command, "--json", "-", check=5).stdout)["run"]
        self.assertFalse(out["pass"])
        return out["calls"]

    def test_one_wrong_expected_output(self):
        self.scale("case1/expected.f32", -1, first=40)
        good, bad = self.failed()
        self.assertTrue(good["pass"] and good["mapping"]["pass"])
        self.assertFalse(bad["pass"] or bad["mapping"]["pass"])
        self.assertLess(bad["cosine_min"], 0.99)
        lines = ipu_e2e(*self.command, check=5).stdout.splitlines()
        self.assertIn("referenceInference=1 numericalTest=PASS", lines)
        self.assertIn("referenceInference=2 numericalTest=FAIL", lines)
        self.assertTrue(any(l.startswith("referenceCase=image 1") and l.endswith("mappingTest=FAIL") for l in lines))
        self.assertTrue(lines[-1].endswith("hardwareTest=FAIL"))

    def test_a_difference_too_small_for_the_device(self):
        """FP32 against what is expected is held to FP32's accuracy, the device only to its own."""
        self.scale("case0/expected.f32", 1.01, first=40)
        call = self.failed()[0]
        self.assertGreater(call["cosine_min"], 0.99)
        self.assertFalse(call["mapping"]["pass"])
        self.assertFalse(call["pass"])

    def test_a_factor_that_no_cosine_sees(self):
        self.scale("case0/expected.f32", 2)
        mapping = self.failed()[0]["mapping"]
        self.assertGreater(mapping["cosine_min"], 0.99999994)
        self.assertFalse(mapping["pass"])

    def test_outputs_of_the_other_case(self):
        def swap(manifest):
            a, b = manifest["cases"]
            a["expected"], b["expected"] = b["expected"], a["expected"]
        self.edit(swap)
        self.assertFalse(any(call["mapping"]["pass"] for call in self.failed()))

    def test_a_parameter_under_the_name_of_another(self):
        """The same shape: only the outputs can tell."""
        def swap(manifest):
            p, base = manifest["parameters"], "vit.encoder.layer0.attention."
            p[base + "key.weight"], p[base + "value.weight"] = p[base + "value.weight"], p[base + "key.weight"]
        self.edit(swap)
        self.assertFalse(any(call["mapping"]["pass"] for call in self.failed()))

    def test_zeros(self):
        self.scale("case0/expected.f32", 0)
        self.assertIsNone(self.failed()[0]["cosine_min"])


class Refused(Fixtures):
    """Exit 4 before planning: nothing is written. Each rule alone: tests/import/fixture_test.cpp."""

    def refuse(self, *parts, command=None):
        package = self.folder / "p.ipuexe"
        done = ipu_e2e(*(command or self.command), "--package", package, check=4, timeout=60)
        self.assertFalse(package.exists())
        self.assertEqual(done.stdout, "")
        for part in (str(self.fixture), *parts):
            self.assertIn(part, done.stderr)

    def test_everything_at_once(self):
        def change(manifest):
            p = manifest["parameters"]
            del p["vit.map.probe"]
            p["vit.map.latent"] = p["vit.position"]
            p["vit.encoder.layer0.mlp.up.weight"]["shape"].reverse()
            p["vit.position"]["file"] = "../position.f32"
        self.edit(change)
        (self.fixture / "case0" / "expected.f32").write_bytes(struct.pack("<144f", *[1.0] * 143, float("inf")))
        (self.fixture / "case1" / "patches.f32").write_bytes(b"\0" * 9407)
        self.scale("parameters/000.f32", 2)
        self.refuse("7 problems", '"vit.map.probe" is missing', '"vit.map.latent" is no parameter of the model',
                    '"vit.encoder.layer0.mlp.up.weight" has shape [288,144], expected [144,288]',
                    '"vit.position": file "../position.f32" is outside the fixture\'s folder',
                    'case 0 "image 0": "expected" in "case0/expected.f32" holds 1 NaN or infinite values, the first is '
                    'element 143 at byte 572',
                    'case 1 "image 1": "vit.image.patches" in "case1/patches.f32": the file has 9407 bytes, shape '
                    '[1,4,588] needs 9408', '"vit.embedding.weight" in "parameters/000.f32" has SHA-256')

    def test_as_many_cases_as_inferences(self):
        self.refuse('"cases" holds 2, but 1 inference calls are asked for',
                    command=[*SMALL, "--reference-fixture", self.fixture])
        self.refuse("3 inference calls", command=[*self.command[:-1], 3])

    def test_another_model(self):
        self.refuse('"vit.map.attention.kv.weight" is missing', '"vit.map.attention.key.weight" is no parameter',
                    command=[*self.command, "--fuse-qkv"])
        self.refuse('"vit.projection.weight" is missing', '"vit.pe.image.patches" is missing',
                    '"vit.image.patches" is no input of the model', command=[*self.command, *PE])
        self.refuse('"vit.encoder.layer1.mlp_norm.bias" is missing', command=[*self.command, "--vit-layers", 2])
        self.refuse('"vit.image.patches" has shape [1,4,588], expected [2,4,588]',
                    command=[*self.command, "--vit-batch", 2])

    def test_no_fixture(self):
        (self.fixture / "manifest.json").write_text("{")
        self.refuse("is no JSON")
        (self.fixture / "manifest.json").unlink()
        self.refuse("no such file")
        shutil.rmtree(self.fixture)
        self.refuse("no such folder")

    def test_options_that_exclude_it(self):
        for options in (["--diagnostic-run"], ["--weights", self.fixture]):
            self.assertIn("--reference-fixture", ipu_e2e(*self.command[:-2], *options, check=2).stderr)


if __name__ == "__main__":
    unittest.main()
