"""Weights from safetensors files: the same values give the same job as drawn ones, under every naming; bad files are
refused with everything that is wrong."""
import functools
import json
import math
import os
import resource
import subprocess
import unittest

import checkpoints
from harness import BIN, SLOWER, SMALL, TempDir, result, tilewright

SIGLIP, PE_CORE, PE = "siglip-so400m", "pe-core-l14", "pe-core-l14-capacity"
CHECKED = [*SMALL, "--batch", 2, "--reference", "both", "--cosine-threshold", "0.97"]


@functools.cache
def siglip(layers=1):
    return checkpoints.siglip_hugging_face(layers=layers)


def job(model, *options, **kwargs):
    """What one job's outputs and its references decide, and no host figure."""
    run = result("e2e", model, *CHECKED, *options, **kwargs)["run"]
    return {"calls": run["calls"], "exact": run["exact_match"], "pass": run["pass"], "clips": run["fp8_clips"]}


class SameValues(TempDir):
    def test_hugging_face_timm_and_shards_equal_drawn_weights(self):
        drawn = job(SIGLIP)
        self.assertTrue(drawn["pass"] and drawn["exact"])
        one = checkpoints.write(self.folder / "hf.safetensors", siglip())
        self.assertEqual(job(SIGLIP, "--weights", one), drawn)
        timm = checkpoints.write(self.folder / "timm.safetensors", checkpoints.siglip_timm())
        self.assertEqual(job(SIGLIP, "--weights", timm), drawn)
        index = checkpoints.write_sharded(self.folder, siglip())
        self.assertEqual(job(SIGLIP, "--weights", index), drawn)
        self.assertEqual(job(SIGLIP, "--weights", self.folder), drawn)
        # A value that is not the drawn one is seen.
        changed = dict(siglip())
        shape, values = changed["vision_model.head.mlp.fc2.weight"]
        changed["vision_model.head.mlp.fc2.weight"] = (shape, [0.5, *values[1:]])
        self.assertNotEqual(job(SIGLIP, "--weights", checkpoints.write(self.folder / "x.safetensors", changed)), drawn)

    def test_perception_encoder_in_both_namings(self):
        files = [checkpoints.write(self.folder / f"{make.__name__}.safetensors", make())
                 for make in (checkpoints.perception_encoder, checkpoints.perception_encoder_timm)]
        for model in (PE_CORE, PE):  # the same tensors: rotary positions are in no file
            drawn = job(model)
            self.assertTrue(drawn["pass"] and drawn["exact"])
            for file in files:
                with self.subTest(f"{model} {file.name}"):
                    self.assertEqual(job(model, "--weights", file), drawn)

    def test_layers_of_a_deeper_checkpoint(self):
        file = checkpoints.write(self.folder / "deep.safetensors", siglip(layers=3))
        for layers in (1, 3):
            self.assertEqual(job(SIGLIP, "--weights", file, "--layers", layers), job(SIGLIP, "--layers", layers))

    def test_unfused_projections_read_their_rows(self):
        """Two spellings of the same matrices: three tensors, and rows of one."""
        hf = checkpoints.write(self.folder / "hf.safetensors", siglip())
        timm = checkpoints.write(self.folder / "timm.safetensors", checkpoints.siglip_timm())
        three = job(SIGLIP, "--weights", hf, "--no-fuse-qkv")
        self.assertTrue(three["pass"] and three["exact"])
        self.assertEqual(job(SIGLIP, "--weights", timm, "--no-fuse-qkv"), three)

    def test_number_formats(self):
        """Values that a narrower format holds exactly are the same weights in it."""
        for dtype, narrow in (("BF16", checkpoints.bf16), ("F16", lambda x: math.ldexp(round(math.ldexp(x, 10)), -10)),
                              ("F64", float)):
            with self.subTest(dtype):
                tensors = {n: (s, [narrow(x) for x in v]) for n, (s, v) in siglip().items()}
                wide = checkpoints.write(self.folder / "wide.safetensors", tensors)
                other = checkpoints.write(self.folder / "other.safetensors", tensors, dtype)
                self.assertEqual(job(SIGLIP, "--weights", wide), job(SIGLIP, "--weights", other))


    def test_fp8_of_the_ocp_is_rounded_again_and_said_so(self):
        """users.md L59, L60: other codes than F143, the same numbers; -0 (0x80) is no NaN."""
        finite = sorted(x for x in checkpoints.E4M3 if abs(x) < 2)
        tensors = {n: (s, [min(finite, key=lambda f: abs(f - x)) for x in v]) if "head.mlp" in n else (s, v)
                   for n, (s, v) in siglip().items()}
        name = "vision_model.head.mlp.fc2.bias"
        tensors[name] = (tensors[name][0], [-0.0, *tensors[name][1][1:]])
        narrow = {n: "F8_E4M3" for n in tensors if "head.mlp" in n}
        wide = checkpoints.write(self.folder / "wide.safetensors", tensors)
        fp8 = checkpoints.write(self.folder / "fp8.safetensors", tensors, dtypes=narrow)
        self.assertEqual(job(SIGLIP, "--weights", wide), job(SIGLIP, "--weights", fp8))
        message = tilewright("compile", SIGLIP, *SMALL, "--weights", fp8, "-o", self.folder / "p.ipuexe", check=0).stderr
        self.assertIn(f"{len(narrow)} tensors of F8_E4M3", message)


    @unittest.skipIf(SLOWER > 1, "sanitizers reserve more addresses than that")
    def test_a_file_larger_than_the_memory(self):
        """users.md L68: 1 GiB of addresses, and a checkpoint whose other tower alone has 2 GiB."""
        whole = checkpoints.write(self.folder / "w.safetensors", siglip()).read_bytes()
        length = int.from_bytes(whole[:8], "little")
        header, end = json.loads(whole[8:8 + length]), len(whole) - 8 - length
        header["text_model.embedding"] = {"dtype": "F32", "shape": [1 << 29], "data_offsets": [end, end + (1 << 31)]}
        text = json.dumps(header).encode()
        file = self.folder / "large.safetensors"
        with open(file, "wb") as out:
            out.write(len(text).to_bytes(8, "little") + text + whole[8 + length:])
            out.truncate(8 + len(text) + end + (1 << 31))
        limit = functools.partial(resource.setrlimit, resource.RLIMIT_AS, (1 << 30, 1 << 30))
        tilewright("compile", SIGLIP, *SMALL, "--weights", file, "-o", self.folder / "p.ipuexe", check=0, preexec_fn=limit)


class PackagesAndTheirWeights(TempDir):
    def test_run_and_compare_need_the_same_files(self):
        weights = checkpoints.write(self.folder / "w.safetensors", siglip())
        package = self.folder / "p.ipuexe"
        tilewright("compile", SIGLIP, *SMALL, "--weights", weights, "-o", package, check=0)
        run = ["run", package, "--reference", "both", "--cosine-threshold", "0.97"]
        self.assertTrue(result(*run)["run"]["exact_match"])
        tilewright("compare", package, check=0)

        moved = self.folder / "moved.safetensors"
        weights.rename(moved)
        for command in (run, ["compare", package]):
            done = tilewright(*command, check=4)
            self.assertIn("are gone", done.stderr)
            self.assertIn(str(weights), done.stderr)
        self.assertTrue(result(*run, "--weights", moved)["run"]["exact_match"])
        self.assertIn("/none.safetensors: the weights", tilewright(*run, "--weights", "/none.safetensors", check=4).stderr)
        tilewright("compare", package, "--weights", moved, check=0)
        tilewright("run", package, "--reference", "none", check=0)

        content = bytearray(moved.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(content)
        for command in (run, ["compare", package]):
            self.assertIn("have changed", tilewright(*command, check=4).stderr)


    def test_shards_that_moved(self):
        first, second = self.folder / "first", self.folder / "second"
        first.mkdir()
        checkpoints.write_sharded(first, siglip())
        package = self.folder / "p.ipuexe"
        tilewright("compile", SIGLIP, *SMALL, "--weights", first, "-o", package, check=0)
        first.rename(second)
        run = ["run", package, "--reference", "exact"]
        self.assertIn("are gone", tilewright(*run, check=4).stderr)
        for now in (second, second / "model.safetensors.index.json"):
            self.assertTrue(result(*run, "--weights", now)["run"]["exact_match"])
        # The folder names one file now, whatever else is in it.
        checkpoints.write(second / "model.safetensors", siglip())
        self.assertIn("other files", tilewright(*run, "--weights", second, check=4).stderr)


class Refusals(TempDir):
    def refuse(self, file, model=SIGLIP):
        """The message; a package must not have begun."""
        package = self.folder / "p.ipuexe"
        done = tilewright("compile", model, *SMALL, "--weights", file, "-o", package, "--json", "-", check=4)
        self.assertFalse(package.exists())
        error = json.loads(done.stdout)["error"]
        self.assertEqual(error["kind"], "file")
        self.assertIn(str(file), error["message"])
        return error["message"]

    def test_everything_that_is_wrong_at_once(self):
        tensors = dict(siglip())
        prefix = "vision_model."
        del tensors[prefix + "post_layernorm.bias"]
        del tensors[prefix + "encoder.layers.0.mlp.fc1.weight"]
        tensors[prefix + "encoder.layers.0.mlp.fc3.weight"] = ([1], [1.0])
        shape, values = tensors[prefix + "encoder.layers.0.mlp.fc2.weight"]
        tensors[prefix + "encoder.layers.0.mlp.fc2.weight"] = (shape[::-1], values)
        tensors[prefix + "head.probe"] = ([1, 1, 144], [1] * 144)
        file = checkpoints.write(self.folder / "w.safetensors", tensors, dtypes={prefix + "head.probe": "I64"})
        message = self.refuse(file)
        self.assertIn("5 problems", message)
        for text in ('post_layernorm.bias" is missing', 'mlp.fc1.weight" is missing', 'mlp.fc3.weight" is unknown',
                     'mlp.fc2.weight" has shape [288,144], expected [144,288]', 'head.probe" has dtype I64'):
            self.assertIn(text, message)

    def test_values_that_are_no_numbers(self):
        tensors = dict(siglip())
        for name, at, value in (("vision_model.head.mlp.fc1.bias", 5, math.nan),
                                ("vision_model.encoder.layers.0.mlp.fc2.weight", 77, -math.inf)):
            shape, values = tensors[name]
            tensors[name] = (shape, [*values[:at], value, *values[at + 1:]])
        message = self.refuse(checkpoints.write(self.folder / "w.safetensors", tensors))
        self.assertIn("2 problems", message)
        self.assertIn('head.mlp.fc1.bias" holds 1 NaN or infinite values, the first is element 5', message)
        self.assertIn("element 77", message)

    def test_at_most_fifty_are_listed(self):
        tensors = dict(siglip()) | {f"vision_model.x{i}": ([1], [0.0]) for i in range(60)}
        message = self.refuse(checkpoints.write(self.folder / "w.safetensors", tensors))
        self.assertIn("60 problems", message)
        self.assertIn("and 10 more", message)
        self.assertEqual(message.count("is unknown"), 50)

    def test_other_models_and_files(self):
        hf = checkpoints.write(self.folder / "hf.safetensors", siglip())
        self.assertIn("names are those of Hugging Face SigLIP", self.refuse(hf, PE))
        other = checkpoints.write(self.folder / "other.safetensors", {"x": ([1], [0.0])})
        self.assertIn("known name", self.refuse(other))
        self.assertIn("no such file", self.refuse(self.folder / "none.safetensors"))
        empty = self.folder / "empty"
        empty.mkdir()
        self.assertIn("neither", self.refuse(empty))
        timm = checkpoints.perception_encoder_timm()
        timm["head.bias"] = (timm["head.bias"][0], [0.5] * 128)
        self.assertIn("head.bias\" is not zero", self.refuse(checkpoints.write(self.folder / "pe.safetensors", timm), PE))

    def test_a_name_that_is_no_utf_8(self):
        file = os.fsencode(self.folder) + b"/w\xff.safetensors"
        os.rename(checkpoints.write(self.folder / "w.safetensors", siglip()), file)
        package = self.folder / "p.ipuexe"
        run = [BIN / "tilewright", "compile", SIGLIP, *SMALL, "--weights", file, "-o", package]
        self.assertEqual(subprocess.run([x if isinstance(x, bytes) else str(x) for x in run], stdout=subprocess.DEVNULL,
                                        timeout=900).returncode, 0)
        self.assertIn("are gone", tilewright("run", package, check=4).stderr)

    def test_an_index_stays_in_its_folder(self):
        checkpoints.write(self.folder / "w.safetensors", siglip())
        inner = self.folder / "inner"
        inner.mkdir()
        for path in ("../w.safetensors", str(self.folder / "w.safetensors"), "a/../../w.safetensors", ""):
            index = inner / "i.json"
            index.write_text(json.dumps({"weight_map": {"vision_model.head.probe": path}}))
            self.refuse(index)
        self.assertEqual(sorted(os.listdir(inner)), ["i.json"])

    def test_types_that_nobody_reads(self):
        whole = checkpoints.write(self.folder / "w.safetensors", siglip()).read_bytes()
        file = self.folder / "t.safetensors"
        for dtype in (b"F8_E8M0", b"F8_E4M3FNUZ", b"F4", b"Q4_0"):
            length = int.from_bytes(whole[:8], "little")
            header = whole[8:8 + length].rstrip().replace(b'"F32"', b'"' + dtype + b'"', 1)
            file.write_bytes(len(header).to_bytes(8, "little") + header + whole[8 + length:])
            message = self.refuse(file)
            self.assertIn(f'unknown dtype "{dtype.decode()}"', message)
            self.assertIn("embeddings.patch_embedding.weight", message)

    def test_numbers_that_lie(self):
        """users.md L54: offsets and shapes that readers have trusted. Each names its tensor."""
        whole = checkpoints.write(self.folder / "w.safetensors", siglip()).read_bytes()
        length = int.from_bytes(whole[:8], "little")
        name = "vision_model.post_layernorm.bias"
        file = self.folder / "t.safetensors"
        for change, text in (({"data_offsets": [1 << 60, (1 << 60) + 576]}, "ends behind"),
                             ({"data_offsets": [576, 0]}, "ends before it"),
                             ({"data_offsets": [-4, 572]}, "found -4"),
                             ({"shape": [1 << 32, 1 << 32]}, "larger than 2^64"),
                             ({"shape": [(1 << 62) + 144]}, "larger than 2^64"),
                             ({"shape": [143]}, "needs 572 bytes, its data has 576")):
            header = json.loads(whole[8:8 + length])
            header[name] |= change
            text_of = json.dumps(header).encode()
            file.write_bytes(len(text_of).to_bytes(8, "little") + text_of + whole[8 + length:])
            message = self.refuse(file)
            self.assertIn(name, message)
            self.assertIn(text, message)

    def test_cut_anywhere(self):
        whole = checkpoints.write(self.folder / "w.safetensors", siglip()).read_bytes()
        cut = self.folder / "cut.safetensors"
        for length in (0, 7, 8, 100, len(whole) // 2, len(whole) - 1):
            with self.subTest(length):
                cut.write_bytes(whole[:length])
                self.refuse(cut)

    def test_range_warning(self):
        """BF16 reaches further than F16: said before anything overflows on the device."""
        tensors = dict(siglip())
        name = "vision_model.encoder.layers.0.mlp.fc2.weight"
        shape, values = tensors[name]
        tensors[name] = (shape, [3e38, 1e-8, *values[2:]])
        file = checkpoints.write(self.folder / "w.safetensors", tensors, "BF16")
        done = tilewright("compile", SIGLIP, *SMALL, "--weights", file, "-o", self.folder / "p.ipuexe", check=0)
        self.assertIn("1 values are beyond the range of F16", done.stderr)
        self.assertIn(name, done.stderr)


if __name__ == "__main__":
    unittest.main()
