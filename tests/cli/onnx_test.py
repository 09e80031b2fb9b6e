"""ONNX files on the command line: the whole way, and what is refused. Models are those of Debian's libonnx-testdata."""
import pathlib
import shutil
import struct
import unittest

from harness import TempDir, result, tilewright

NODE = pathlib.Path("/usr/share/libonnx-testdata/data/node")
FEW = ["--tiles", 16, "--progress", "never", "--precision", "fp16"]


@unittest.skipUnless(NODE.exists(), "Debian's libonnx-testdata is not installed")
class Onnx(TempDir):
    def model(self, name):
        return shutil.copy(NODE / name / "model.onnx", self.folder / f"{name}.onnx")

    def test_end_to_end_equals_the_exact_interpreter(self):
        norm = self.model("test_layer_normalization_3d_axis1_epsilon")
        run = result("e2e", norm, *FEW, "--calls", 2, "--reference", "both", "--cosine-threshold", "0.9999")["run"]
        self.assertTrue(run["pass"] and run["exact_match"])

    def test_a_package_runs_and_knows_its_file(self):
        product = self.model("test_matmul_3d")
        package = self.folder / "product.ipuexe"
        tilewright("compile", product, *FEW, "-o", package, check=0)
        self.assertTrue(result("run", package, "--reference", "both")["run"]["pass"])
        tilewright("compare", package, check=0)
        shutil.copy(NODE / "test_matmul_2d" / "model.onnx", product)
        self.assertIn("not the file", tilewright("run", package, check=4).stderr)

    def test_inputs_from_files_and_saved_outputs(self):
        root = self.model("test_sqrt_example")
        values = self.folder / "x.f32"
        values.write_bytes(struct.pack("<3f", 1.0, 4.0, 9.0))
        out = self.folder / "out"
        tilewright("e2e", root, *FEW, "--input", f"x={values}", "--save-outputs", out, check=0)
        self.assertEqual(struct.unpack("<3f", (out / "y.f32").read_bytes()), (1.0, 2.0, 3.0))
        values.write_bytes(struct.pack("<3f", 1.0, float("nan"), float("inf")))
        message = tilewright("e2e", root, *FEW, "--input", f"x={values}", check=4).stderr
        self.assertIn(f'{values}: element 1 for the input "x" is nan', message)
        values.write_bytes(b"1234")
        error = result("e2e", root, *FEW, "--input", f"x={values}", check=4)["error"]
        self.assertIn("12 B", error["message"])

    def test_refusals_name_the_thing(self):
        norm = self.model("test_sqrt_example")
        for arguments, code, text in ((["--layers", 2], 2, "--layers"), (["--dim", "batch=2"], 2, "batch"),
                                      (["--dim", "batch"], 2, "NAME=VALUE"), (["--input", f"z={norm}"], 2, "z"),
                                      (["--image", norm], 2, "--image"), (["--batch", 2], 2, "--batch")):
            self.assertIn(text, tilewright("e2e", norm, *FEW, *arguments, check=code).stderr)
        package, short = self.folder / "early.ipuexe", self.folder / "short.f32"
        short.write_bytes(b"1234")
        for model, option, code in ((norm, ["--input", f"z={norm}"], 2), (norm, ["--image", norm], 2),
                                    (norm, ["--input", f"x={short}"], 4),
                                    (norm, ["--input", f"x={self.folder / 'none'}"], 4),
                                    ("siglip-so400m", ["--small", "--input", f"x={short}"], 2)):
            done = tilewright("e2e", model, *FEW, *option, "-o", package, check=code)  # before the model is compiled
            self.assertEqual((package.exists(), done.stdout), (False, ""), option)
        broken = self.folder / "broken.onnx"
        broken.write_bytes(b"\x08\x07garbage")
        self.assertIn("broken.onnx", tilewright("compile", broken, "-o", self.folder / "p", check=4).stderr)
        self.assertFalse((self.folder / "p").exists())
        mask = self.model("test_nonzero_example")
        self.assertIn("NonZero", tilewright("e2e", mask, *FEW, check=3).stderr)


if __name__ == "__main__":
    unittest.main()
