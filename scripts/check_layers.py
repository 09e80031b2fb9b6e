#!/usr/bin/env python3
"""Fails when a file of src/ includes a folder that its own may not see (ARCHITECTURE.md, "Floors")."""
import pathlib
import re
import sys

ALLOWED = {
    "base": "",
    "target": "base",
    "numeric": "base",
    "tensor": "base numeric",
    "place": "base target",
    "exchange": "base target",
    "package": "base target",
    "graph": "base numeric tensor",
    "kernel": "base target numeric",
    "plan": "base target numeric tensor graph kernel",
    "tile": "base target numeric tensor kernel plan place exchange",
    "emit": "base target kernel tile place exchange package",
    "compile": "base target numeric tensor graph kernel plan tile place exchange emit package",
    "sim": "base target numeric kernel package",
    "ref": "base numeric tensor graph",
    "model": "base numeric tensor graph",
    "import": "base numeric tensor",
    "onnx": "base numeric tensor graph ref import",
    "report": "base target exchange kernel package",
    "inspect": "base target place exchange package",
    "tools": "*",
}
# Libraries seen by named folders only, never in a public header of the compiler (dependencies.md).
HEAVY = re.compile(r"CLI/|nlohmann/|spdlog/|onnx/onnx|google/|toml\+\+|hwy/|capnp/|cblas|stb_image|openssl/|xxhash")
INCLUDE = re.compile(r'^\s*#include\s+(["<])([^">]+)[">]', re.M)


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent / "src"
    faults = []
    for path in sorted(root.rglob("*.*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        folder = path.relative_to(root).parts[0]
        if folder not in ALLOWED:
            faults.append(f"{path}: folder {folder} is not in the table")
            continue
        allowed = ALLOWED[folder].split()
        for kind, name in INCLUDE.findall(path.read_text()):
            if path.suffix == ".h" and HEAVY.search(name) and not path.name.endswith("-inl.h"):
                faults.append(f"{path}: heavy header <{name}> in a header")
            top = name.split("/")[0]
            if kind == '"' and top in ALLOWED and top != folder and "*" not in allowed and top not in allowed:
                faults.append(f"{path}: {folder} may not include {name}")
    print("\n".join(faults) or "include direction: good")
    return 1 if faults else 0


sys.exit(main())
