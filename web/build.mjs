// Bundles the report page into one HTML text and writes it as a C++ source (src/report/page.h).
// node build.mjs FOLDER_WITH_NODE_MODULES OUTPUT.cpp
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

const [modules, output] = process.argv.slice(2).map((p) => path.resolve(p));
const here = path.dirname(fileURLToPath(import.meta.url));
const esbuild = createRequire(path.join(modules, "package.json"))("esbuild");

function bundle(entry) {
  const result = esbuild.buildSync({
    entryPoints: [path.join(here, "src", entry)],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: "es2020",
    charset: "ascii",
    legalComments: "none",
    nodePaths: [path.join(modules, "node_modules")],
    logLevel: "warning",
  });
  return result.outputFiles[0].text;
}

// A closing tag inside the code would end its element.
const script = bundle("main.js").replaceAll("</script", "<\\/script");
const page = readFileSync(path.join(here, "index.html"), "utf8")
  .replace("@STYLE@", () => bundle("style.css"))
  .replace("@SCRIPT@", () => script);

const chunks = [];
for (let at = 0; at < page.length; at += 16000) chunks.push(`R"~page~(${page.slice(at, at + 16000)})~page~"`);
writeFileSync(output, `// Made by web/build.mjs.
#include "report/page.h"

namespace tw::report {

std::string_view page_template() {
  static constexpr char kPage[] =
${chunks.join("\n")};
  return {kPage, sizeof kPage - 1};
}

}  // namespace tw::report
`);
