"""FP8 scales by role from a file, and the patch embedding in FP16: the device equals the exact interpreter bit for bit,
and a file that does not suit the model is refused before anything is written."""
import functools
import hashlib
import json
import math
import os
import re
import signal
import subprocess
import time
import unittest

import checkpoints
from harness import BIN, PHOTOS, SMALL, TempDir, ipu_e2e, result, tilewright

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

        def built(package, *options):
            tilewright("compile", SIGLIP, *SMALL, *options, "-o", package, check=0)
            weights = [tilewright("inspect", package, "--tile", t, "--assembly", check=0).stdout for t in (0, 17)]
            return weights, result("inspect", package)["recipe"]

        plain, recipe = built(one, "--fp8-scale", -3)
        file = self.write(UNIFORM, fp16_embedding=False)
        same, its_recipe = built(other, "--calibration", file)
        self.assertEqual(plain, same)
        self.assertEqual(recipe | {"calibration_sha256": hashlib.sha256(file.read_bytes()).hexdigest()}, its_recipe)
        self.assertNotEqual(built(other, "--calibration", self.write(MIXED))[0], plain)

    def test_products_in_fp16_by_role(self):
        role = "encoder.layer.mlp.down"
        file = self.write({r: s for r, s in MIXED.items() if r != role}, fp16=[role])
        package = self.folder / "p.ipuexe"
        run = result("e2e", SIGLIP, *SMALL, "--layers", 2, "--calibration", file, "--fp16", "map.mlp.up", "--reference", "both",
                     "--cosine-threshold", "0.97", "-o", package)["run"]
        self.assertTrue(run["exact_match"])
        kinds = {b["name"]: b["dtype"] for b in result("inspect", package)["inspect"]["bindings"]}
        for name, dtype in (("vit.encoder.layer1.mlp.down.weight", "f16"), ("vit.map.mlp.up.weight", "f16"),
                            ("vit.embedding.weight", "f16"), ("vit.encoder.layer1.mlp.up.weight", "f8f143")):
            self.assertEqual(kinds[name], dtype, name)
        self.assertIn('no product of siglip-so400m has the role "mlp.none"',
                      tilewright("e2e", SIGLIP, *SMALL, "--fp16", "mlp.none", check=2).stderr)

    def test_the_package_names_its_calibration(self):
        file, other, package = self.write(MIXED), self.write(UNIFORM, name="o.json"), self.folder / "p.ipuexe"
        tilewright("compile", SIGLIP, *SMALL, "--calibration", file, "-o", package, check=0)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        self.assertIn(digest, tilewright("inspect", package, check=0).stdout)
        for command in (["run", package, "--reference", "exact"], ["compare", package]):
            tilewright(*command, "--calibration", file, check=0)
            message = tilewright(*command, "--calibration", other, check=4).stderr
            self.assertIn(digest, message)
            self.assertIn(str(other), message)
        tilewright("compile", SIGLIP, *SMALL, "-o", package, check=0)
        self.assertIn("without a calibration", tilewright("run", package, "--calibration", file, check=4).stderr)

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


class Measured(TempDir):
    """`calibrate`: the file, its figures, and what they buy."""

    def setUp(self):
        super().setUp()
        self.file = self.folder / "scales.json"

    def calibrate(self, *options, model=SIGLIP, **kwargs):
        """Rows by role, and the whole object."""
        found = result("calibrate", model, "--small", *options, "-o", self.file, **kwargs)["calibrate"]
        return {row["role"]: row for row in found["roles"]}, found

    @staticmethod
    @functools.cache
    def loud(factor, channels=144):
        """The drawn values; what enters Q, K and V is larger by `factor` in some channels, their weights smaller: the same
        function."""
        tensors = dict(checkpoints.siglip_hugging_face())
        layer = "vision_model.encoder.layers.0."
        gamma = [factor if i < channels else 1.0 for i in range(144)]
        tensors[layer + "layer_norm1.weight"] = ([144], gamma)
        for letter in "qkv":
            name = f"{layer}self_attn.{letter}_proj.weight"
            shape, values = tensors[name]
            tensors[name] = (shape, [x / gamma[i % 144] for i, x in enumerate(values)])
        return tensors

    def test_figures_of_drawn_values(self):
        """Against the same values drawn here: the largest input of the first product, the largest of each weight."""
        rows, found = self.calibrate("--draws", 2, "--layers", 3, "--seed", 5, "--no-cosine")
        patches = [x for seed in (5, 6) for x in checkpoints.drawn("vit.image.patches", [1, 4, 588], 0.5, seed=seed)]
        largest = max(map(abs, patches))
        self.assertEqual(rows["embedding"]["input"]["max"], largest)
        up = [checkpoints.drawn(f"vit.encoder.layer{i}.mlp.up.weight", [144, 288], math.sqrt(2 / 432), seed=5)
              for i in range(3)]
        weight = max(abs(x) for values in up for x in values)
        self.assertEqual(rows["encoder.layer.mlp.up"]["weight"]["max"], weight)
        scales = json.loads(self.file.read_text())["scales"]
        self.assertEqual(set(scales), {*TRAINED, "embedding"})
        own = [math.ceil(math.log2(rows["encoder.layer.mlp.up"][o]["max"] / 240)) for o in ("input", "weight")]
        self.assertEqual(scales["encoder.layer.mlp.up"], {"activation": max(own), "weight": max(own)})
        self.assertEqual(scales["embedding"]["activation"], math.ceil(math.log2(largest / 240)))
        self.assertEqual((found["images"], found["drawn"], found["cosine"]["calibration"]), (2, True, None))
        self.assertEqual(found["sha256"], hashlib.sha256(self.file.read_bytes()).hexdigest())

    def test_activations_beyond_the_uniform_scale(self):
        """Inputs far above 15, what scale -4 reaches: it clips them, the measured scale does not."""
        weights = checkpoints.write(self.folder / "w.safetensors", self.loud(16))
        rows, found = self.calibrate("--weights", weights, "--image", PHOTOS / "coffee.png", "--held-out",
                                     PHOTOS / "astronaut.png", "--fp16-embedding")
        qkv = rows["encoder.layer.attention.qkv"]
        self.assertGreater(qkv["input"]["max"], 45)
        self.assertGreater(qkv["input"]["clipped_percent_uniform"], 20)
        self.assertEqual(qkv["input"]["clipped_percent"], 0)
        self.assertEqual(found["warnings"], [])
        self.assertEqual(rows["embedding"]["precision"], "fp16")
        self.assertEqual(json.loads(self.file.read_text())["fp16_embedding"], True)
        job = ["e2e", SIGLIP, *SMALL, "--weights", weights, "--reference", "both", "--image"]
        cosines = {}
        for photo in ("coffee.png", "astronaut.png"):
            run = result(*job, PHOTOS / photo, "--calibration", self.file, "--cosine-threshold", "0.98")["run"]
            self.assertTrue(run["pass"] and run["exact_match"])
            cosines[photo] = run["calls"][0]["cosine_min"]
        uniform = result(*job, PHOTOS / "coffee.png", "--fp16-embedding", "--cosine-threshold", "0.98", check=5)["run"]
        self.assertLess(uniform["calls"][0]["cosine_min"], cosines["coffee.png"])
        # The rounded pass predicts what the device does.
        for kind, photo in (("calibration", "coffee.png"), ("held_out", "astronaut.png")):
            predicted = found["cosine"][kind]["images"][0]
            self.assertLess(abs(predicted - cosines[photo]), 0.3 * (1 - cosines[photo]), (predicted, cosines))
            self.assertEqual(len(found["cosine"][kind]["layers"]), 1)

    def test_outliers_are_warned_of_and_kept_in_fp16(self):
        weights = checkpoints.write(self.folder / "w.safetensors", self.loud(4096, channels=1))
        role = "encoder.layer.attention.qkv"
        done = tilewright("calibrate", SIGLIP, "--small", "--weights", weights, "-o", self.file, check=0)
        self.assertIn(f"try --fp16 {role}", done.stderr)
        self.assertEqual(done.stderr.count("warning"), 1, done.stderr)
        rows, found = self.calibrate("--weights", weights, "--fp16", role)
        self.assertEqual((found["warnings"], rows[role]["scale"]), ([], None))
        self.assertEqual(json.loads(self.file.read_text())["fp16"], [role])
        job = ["e2e", SIGLIP, *SMALL, "--weights", weights, "--reference", "both", "--calibration"]
        self.assertTrue(result(*job, self.file, "--cosine-threshold", "0.98")["run"]["exact_match"])
        self.calibrate("--weights", weights)
        lossy = result(*job, self.file, check=None)["run"]["calls"][0]["cosine_min"]
        self.assertLess(lossy, found["cosine"]["calibration"]["images"][0])

    def test_the_file_suits_its_model_and_depends_on_no_thread_count(self):
        for model, options in ((SIGLIP, ["--no-fuse-qkv"]), (PE, ["--layers", 2]), ("pe-core-l14", ["--fp16-embedding"])):
            with self.subTest(model):
                self.calibrate(*options, "--threads", 1, model=model)
                one = self.file.read_bytes()
                self.calibrate(*options, "--threads", 3, model=model)
                self.assertEqual(self.file.read_bytes(), one)
                tilewright("compile", model, *SMALL, *[o for o in options if o != "--fp16-embedding"], "--calibration",
                           self.file, "-o", self.folder / "p.ipuexe", check=0)

    def test_refusals_leave_nothing(self):
        missing, text = self.folder / "none.png", self.folder / "text.png"
        text.write_text("no image")
        for code, options in ((4, ["--image", missing]), (4, ["--image", PHOTOS / "coffee.png", "--held-out", text]),
                              (4, ["--weights", missing]), (2, ["--fp16", "mlp.none"]), (2, ["--draws", 0])):
            with self.subTest(options):
                done = tilewright("calibrate", SIGLIP, "--small", *options, "-o", self.file, check=code)
                self.assertNotIn("internal", done.stderr)
                self.assertFalse(self.file.exists())
        tilewright("calibrate", "model.onnx", "-o", self.file, check=2)
        tilewright("calibrate", SIGLIP, "--small", "-o", self.folder / "no" / "x.json", check=4)
        tilewright("calibrate", SIGLIP, "--small", "-o", "-", "--json", "-", check=2)
        self.assertEqual(os.listdir(self.folder), ["text.png"])

    def test_an_interrupt_leaves_nothing(self):
        child = subprocess.Popen([BIN / "tilewright", "calibrate", SIGLIP, "--layers", "2", "-o", self.file],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(timeout=60), 130)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_line_for_each_role_and_a_cosine_for_each_layer(self):
        text = tilewright("calibrate", SIGLIP, "--small", "--layers", 3, "-o", self.file, check=0).stdout
        for role in [*TRAINED, "embedding"]:
            self.assertRegex(text, rf"(?m)^  {re.escape(role)} +[0-9.]+ +[0-9.]+ +-[0-9]+ ")
        self.assertRegex(text, r"(?m)^  by layer( 0\.9\d{3}){3}$")
        self.assertRegex(text, r"(?m)^  cosine, calibration +0\.99")

    def test_standard_output(self):
        done = tilewright("calibrate", SIGLIP, "--small", "--no-cosine", "-o", "-", check=0)
        self.assertTrue(json.loads(done.stdout)["shared_operand_scale"])


class ClippedWeights(Calibrated):
    """One warning with every parameter that loses values, and none without."""

    def planted(self):
        """Scale -4 reaches 15; from 15.5 on a value would round beyond it (models.md A.1.2)."""
        tensors = dict(checkpoints.siglip_hugging_face())
        for name, values in (("head.mlp.fc2.weight", [15.49, 15.5, -300.0, 20.0]),
                             ("encoder.layers.0.self_attn.k_proj.weight", [-16.0]), ("head.mlp.fc1.weight", [-15.4])):
            shape, old = tensors["vision_model." + name]
            tensors["vision_model." + name] = (shape, values + old[len(values):])
        return checkpoints.write(self.folder / "w.safetensors", tensors)

    def compiled(self, *options):
        done = tilewright("compile", SIGLIP, *SMALL, *options, "-o", self.folder / "p.ipuexe", "--json", "-", check=0)
        return json.loads(done.stdout)["compile"]["clipped_weights"], done.stderr

    def test_planted_values_are_counted(self):
        weights = self.planted()
        expected = [{"tensor": "vit.encoder.layer0.attention.qkv.weight", "scale": -4, "values": 144 * 432, "clipped": 1,
                     "largest": 16.0},
                    {"tensor": "vit.map.mlp.down.weight", "scale": -4, "values": 288 * 144, "clipped": 3, "largest": 300.0}]
        for rounding in ("balanced", "nearest"):
            clipped, message = self.compiled("--weights", weights, "--weight-rounding", rounding)
            self.assertEqual(clipped, expected)
            self.assertIn("2 parameters clip", message)
            self.assertRegex(message, r'"vit.map.mlp.down.weight": 3 of 41472 \(0.0072 %\) clip to 15, .* 300, needs 1\n')
            self.assertIn("--fp8-scale 1 for all, or --fp16 encoder.layer.attention.qkv --fp16 map.mlp.down", message)

    def test_what_the_warning_proposes_helps(self):
        weights = self.planted()
        file = self.folder / "scales.json"
        tilewright("calibrate", SIGLIP, "--small", "--weights", weights, "-o", file, check=0)
        for options in (["--calibration", file], ["--fp8-scale", 1], ["--precision", "fp16"],
                        ["--fp16", "encoder.layer.attention.qkv", "--fp16", "map.mlp.down"]):
            self.assertEqual(self.compiled("--weights", weights, *options), ([], ""), options)

    def test_fp16_is_not_offered_for_what_it_cannot_hold(self):
        tensors = dict(checkpoints.siglip_hugging_face())
        for name, value in (("head.mlp.fc2.weight", 70000.0), ("head.mlp.fc1.weight", 65504.0)):
            shape, old = tensors["vision_model." + name]
            tensors["vision_model." + name] = (shape, [value] + old[1:])
        weights = checkpoints.write(self.folder / "w.safetensors", tensors)
        clipped, message = self.compiled("--weights", weights)
        self.assertEqual(len(clipped), 2)
        self.assertIn("--fp16 map.mlp.up\n", message)
        self.assertNotIn("--fp16 map.mlp.down", message)
        self.assertIn("--fp16 does not help map.mlp.down", message)

    def test_drawn_weights_clip_only_where_the_scale_is_too_small(self):
        self.assertEqual(self.compiled(), ([], ""))
        clipped, message = self.compiled("--fp8-scale", -12, "--layers", 12)
        self.assertEqual(len(clipped), 6 + 4 * 12)
        self.assertLessEqual(len(message.splitlines()), 50)
        self.assertIn("and 8 more", message)
        low = {role: -4 for role in [*TRAINED, "embedding"]} | {"map.mlp.up": -13}
        clipped, _ = self.compiled("--calibration", self.write(low, fp16_embedding=False))
        self.assertEqual([c["tensor"] for c in clipped], ["vit.map.mlp.up.weight"])
        values = checkpoints.parameter("vit.map.mlp.up.weight", [144, 288])
        self.assertEqual(clipped[0]["clipped"], sum(abs(x) >= 248 / 2**13 for x in values))


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
