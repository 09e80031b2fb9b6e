"""`ipu-e2e-test`: the seed's command line on the small models."""
import fcntl
import json
import os
import subprocess
import unittest

import checkpoints
from harness import BIN, SOURCE, TempDir, ipu_e2e, result, tilewright, values

CONFIG = SOURCE / "configs" / "c600.toml"
SMALL = [CONFIG, "--workload", "siglip-vit-benchmark", "--vit-small", "--tiles", "64", "--progress", "never"]
PE = ["--vit-model", "pe-core-l14-capacity"]


class SeedCommand(TempDir):
    def command(self, *more):
        # The seed's line with the small model; paths that do not exist yet, and an SDK that does not exist at all.
        return [*SMALL, "--sdk", "/no/such/sdk", "--runtime-source", "device/static_runtime.S", "--vit-layers", "2",
                "--vit-batch", "2", "--fuse-qkv", "--fp8-scale=-4", "--optimization-steps", "0",
                "--exchange-stream-words", "1024", "--no-profile", "--reference-run", "--reference-inferences", "2",
                "--device-lock", self.folder / "sweep" / "device.lock", "--memory-profile-directory",
                self.folder / "out" / "memory", "--package", self.folder / "out" / "model.ipuexe", *more]

    def test_both_models(self):
        for model in ([], PE):
            with self.subTest(model):
                done = ipu_e2e(*self.command(*model), check=0)
                lines = done.stdout.splitlines()
                self.assertIn("referencePrecision=device", lines)
                for k in (1, 2):
                    self.assertIn(f"referenceInference={k} numericalTest=PASS", lines)
                self.assertTrue(any(l.startswith("referenceMaximumAbsoluteError=") and l.endswith("numericalTest=PASS") for l in lines))
                self.assertEqual(lines[-1], f"package={self.folder / 'out' / 'model.ipuexe'} hardwareTest=PASS")
                self.assertEqual(sum("not opened" in l for l in lines), 1)
                self.assertEqual(sorted(os.listdir(self.folder / "out")), ["memory", "model.ipuexe"])

    def test_memory_profile(self):
        ipu_e2e(*self.command(), check=0)
        folder, package = self.folder / "out" / "memory", self.folder / "out" / "model.ipuexe"
        self.assertEqual(sorted(os.listdir(folder)), ["report.html", "report.json"])
        tilewright("report", package, "-o", self.folder / "report", check=0)
        for name in os.listdir(folder):  # the one report of a package
            self.assertEqual((folder / name).read_bytes(), (self.folder / "report" / name).read_bytes(), name)
        ipu_e2e(*SMALL, "--memory-profile-directory", self.folder / "alone", check=0)
        self.assertEqual(json.loads((self.folder / "alone" / "report.json").read_text())["report"]["package"], {"file": "", "bytes": 0})

    def test_reused_package(self):
        package = self.folder / "out" / "model.ipuexe"
        first = ipu_e2e(*self.command(), check=0)
        stamp = package.stat().st_mtime_ns
        again = ipu_e2e(*self.command("--reuse-package"), check=0)
        self.assertEqual(package.stat().st_mtime_ns, stamp)
        for key in ("referenceMinimumCosineSimilarity", "simulatedCyclesPerCall", "package"):
            self.assertEqual(values(first.stdout)[key], values(again.stdout)[key])
        other = ipu_e2e(*[a if a != "--fp8-scale=-4" else "--fp8-scale=-3" for a in self.command("--reuse-package")], check=2)
        self.assertIn("other options", other.stderr)
        ipu_e2e(*SMALL, "--reuse-package", "--package", self.folder / "none.ipuexe", check=4)


class Options(TempDir):
    def recipe(self, *arguments):
        done = ipu_e2e(*SMALL, *arguments, "--json", "-", check=0)
        return json.loads(done.stdout)["compile"]

    def test_defaults(self):
        compile = self.recipe()
        self.assertEqual((compile["model"]["name"], compile["model"]["layers"], compile["model"]["batch"]), ("siglip-so400m", 1, 1))
        self.assertEqual((compile["precision"], compile["policy"]), ("fp16", "default"))
        self.assertEqual(compile["exchange"]["table_budget_bytes"], 80 * 1024)
        self.assertEqual(compile["exchange"]["fragment_limit"], 16384)
        paths = [o["path"] for o in compile["cycles"]["operations"]]
        self.assertTrue(any(p.endswith("attention.query") and "encoder" in p for p in paths), paths)  # unfused
        self.assertAlmostEqual(sum(o["scheduled"] for o in compile["cycles"]["operations"]), compile["cycles"]["scheduled"],
                               delta=0.01 * compile["cycles"]["scheduled"])

    def test_spellings_of_the_scale(self):
        self.assertEqual(self.recipe("--fp8-scale=-4")["precision"], "fp8")
        self.assertEqual(self.recipe("--fp8-scale", "-4")["precision"], "fp8")

    def test_fp16_against_fp32(self):
        done = ipu_e2e(*SMALL, "--reference-run", "--reference-fp32", check=0)
        found = values(done.stdout)
        self.assertEqual(found["referencePrecision"], "fp32")
        self.assertGreater(float(found["referenceMinimumCosineSimilarity"]), 0.999)
        self.assertIn("package=none hardwareTest=PASS", done.stdout)
        self.assertIn("of 8 builds tried", done.stdout)  # the seed's default

    def test_usage(self):
        for arguments in (["--reference-fp32"], ["--workload", "gemm-smoke"], ["--no-profile", "--profile-output", "x"],
                          ["--reuse-package"], ["--diagnostic-run", "--reference-run"], ["--diagnostic-samples", "3"],
                          ["--vit-model", "no-such-model"], ["--vit-model", "pe-core-l14"],
                          ["--fp8-scale=99"], ["--tiles", "0"], ["--no-such-option"],
                          ["--reference-fixture", "x", "--diagnostic-run"], ["--vit-image-size", "15"]):
            with self.subTest(arguments):
                done = ipu_e2e(*[a for a in SMALL if arguments[0] != "--workload" or a not in ("--workload", "siglip-vit-benchmark")],
                               *arguments, check=2)
                self.assertTrue(done.stderr.startswith("ipu-e2e-test: "))
        ipu_e2e(self.folder / "none.toml", "--vit-small", check=4)

    def test_saved_inputs(self):
        folder = self.folder / "saved"
        arguments = [*SMALL, "--vit-batch", "2", "--fp8-scale=-4", "--package", self.folder / "p.ipuexe"]
        ipu_e2e(*arguments, "--save-reference-inputs", folder, check=0)
        first = {n: (folder / n).read_bytes() for n in ("weights.bin", "input.bin", "output.bin")}
        self.assertEqual(len(first["input.bin"]), 2 * 4 * 588 * 2)  # batch, patches of 28 x 28, 14*14*3, F16
        self.assertEqual(len(first["output.bin"]), 2 * 144 * 2)
        self.assertIn(first["weights.bin"][:64], (self.folder / "p.ipuexe").read_bytes())
        ipu_e2e(*arguments, "--reuse-package", "--save-reference-inputs", folder, check=0)
        self.assertEqual(first, {n: (folder / n).read_bytes() for n in first})

    def test_profile(self):
        file = self.folder / "deep" / "profile.json"
        ipu_e2e(*SMALL, "--profile-output", file, check=0)
        profile = json.loads(file.read_text())["profile"]
        self.assertGreater(len(profile["operations"]), 10)
        self.assertGreater(profile["simulated"]["cycles_per_call"], 0)

    def test_device_lock_is_waited_for(self):
        lock = self.folder / "device.lock"
        with open(lock, "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            child = subprocess.Popen([BIN / "ipu-e2e-test", *map(str, SMALL), "--device-lock", str(lock)],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertIn("waiting", child.stderr.readline())
            self.assertIsNone(child.poll())
        out, _ = child.communicate(timeout=600)
        self.assertEqual(child.returncode, 0)
        self.assertIn("hardwareTest=PASS", out)


class Weights(TempDir):
    """`--weights` is that of `tilewright e2e`: the same checkpoint, the same job (weights_test.py has the rules)."""

    def run_of(self, *options, check=0):
        return json.loads(ipu_e2e(*SMALL, "--fuse-qkv", "--optimization-steps", 0, "--reference-run",
                                  "--reference-fp32", *options, "--json", "-", check=check).stdout)["run"]

    def test_a_checkpoint_of_the_drawn_values_and_another(self):
        drawn = self.run_of()
        self.assertEqual(drawn["calls"], self.run_of("--weights", "random")["calls"])
        tensors = checkpoints.siglip_hugging_face()
        file = checkpoints.write(self.folder / "w.safetensors", tensors)
        read = self.run_of("--weights", file)
        self.assertTrue(read["pass"])
        self.assertEqual(drawn["calls"], read["calls"])
        e2e = result("e2e", "siglip-so400m", "--small", "--tiles", 64, "--progress", "never", "--weights", file,
                     "--precision", "fp16", "--reference", "fp32")["run"]
        self.assertEqual(e2e["calls"], read["calls"])
        name = "vision_model.head.mlp.fc2.weight"
        shape, values = tensors[name]
        other = checkpoints.write(self.folder / "other.safetensors", tensors | {name: (shape, [0.5, *values[1:]])})
        self.assertNotEqual(drawn["calls"], self.run_of("--weights", other)["calls"])
        # A package goes with the content of its weights, wherever they are.
        package = ["--package", self.folder / "p.ipuexe"]
        self.assertEqual(self.run_of("--weights", file, *package)["calls"], drawn["calls"])
        moved = file.rename(self.folder / "moved.safetensors")
        self.assertEqual(self.run_of("--weights", moved, *package, "--reuse-package")["calls"], drawn["calls"])
        job = [*SMALL, "--fuse-qkv", "--optimization-steps", 0, *package, "--reuse-package"]
        self.assertIn("have changed", ipu_e2e(*job, "--weights", other, check=4).stderr)
        self.assertIn("other options", ipu_e2e(*job, check=2).stderr)

    def test_bad_values_are_refused_by_both_kinds_of_run(self):
        tensors = checkpoints.siglip_hugging_face()
        name = "vision_model.head.mlp.fc1.bias"
        shape, values = tensors[name]
        file = checkpoints.write(self.folder / "w.safetensors", tensors | {name: (shape, [float("nan"), *values[1:]])})
        for more in ([], ["--diagnostic-run"]):
            self.assertIn('fc1.bias" holds 1 NaN', ipu_e2e(*SMALL, "--weights", file, *more, check=4).stderr)
        self.assertIn("no such file", ipu_e2e(*SMALL, "--weights", self.folder / "none", check=4).stderr)


class Diagnostics(TempDir):
    def test_every_checkpoint_passes(self):
        # models.md C.4 has 41 results of the unfused PE graph and 40 of SigLIP. Two biases are part of the GELU step
        # here, and the two merges of heads are views.
        for model, checkpoints in ((PE, 41 - 4), ([], 40 - 4)):
            with self.subTest(model):
                done = ipu_e2e(*SMALL, *model, "--fp8-scale=-4", "--diagnostic-run", "--diagnostic-samples", "64",
                               "--diagnostic-atol", "0", "--diagnostic-rtol", "0", check=0)
                found = values(done.stdout)
                self.assertEqual(found["diagnosticCheckpoints"], str(checkpoints))
                self.assertEqual(found["samplesBeyondTolerance"], "0")
                self.assertEqual(found["numericalTest"], "PASS")

    def test_json_counts_samples(self):
        done = ipu_e2e(*SMALL, "--diagnostic-run", "--diagnostic-samples", "7", "--json", "-", check=0)
        operations = json.loads(done.stdout)["compare"]["operations"]
        self.assertTrue(all(o["samples"] == 7 and o["samples_beyond"] == 0 for o in operations))


if __name__ == "__main__":
    unittest.main()
