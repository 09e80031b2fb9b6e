// Runs a recogniser with ONNX Runtime, in FP32, on files of raw F32 values.
// node runtime.mjs FOLDER_WITH_NODE_MODULES MODEL HEIGHT WIDTH OUTPUT_FOLDER INPUT...; outputs have the inputs' names.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const [modules, model, height, width, folder, ...inputs] = process.argv.slice(2);
const { InferenceSession, Tensor } = createRequire(path.resolve(modules, "package.json"))("onnxruntime-node");
const session = await InferenceSession.create(model, { intraOpNumThreads: 1 });
for (const file of inputs) {
  const values = new Float32Array(new Uint8Array(readFileSync(file)).buffer);
  const x = new Tensor("float32", values, [1, 3, Number(height), Number(width)]);
  const results = await session.run({ [session.inputNames[0]]: x });
  const { data, dims } = results[session.outputNames[0]];
  writeFileSync(path.join(folder, path.basename(file)), new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  console.log(path.basename(file), dims.join("x"));
}
