#!/usr/bin/env python3
"""Fails when a document names a file that does not exist, or when ARCHITECTURE.md and check_layers.py disagree.

Paths: words in backticks of the three top documents that contain a slash or end like a file; `*` matches any name.
Links: relative targets in every .md file. What the scripts make (build/, photographs) is not looked for.
"""
import ast
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOP = ("README.md", "ARCHITECTURE.md", "HACKING.md")
PATH = re.compile(r"`(?:\./)?([\w.*-]+(?:/[\w.*-]*)+|[\w-]+\.(?:md|sh|py|h|cpp|def|toml|json|svg|txt))`")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
MADE = ("build/", "photos/astronaut", "photos/coffee", "photos/chelsea", "photos/rocket", "photos/copyright")
FLOOR = re.compile(r"^\|[^|]*\| `(\w+)` \| ([^|]*) \|$", re.M)
LINES = 120  # of ARCHITECTURE.md


def missing_paths(name: str, text: str) -> list[str]:
    return [f"{name}: `{path}` does not exist" for path in PATH.findall(text)
            if not path.startswith(MADE) and not any(ROOT.glob(path.rstrip("/")))]


def missing_links(name: str, text: str) -> list[str]:
    folder = (ROOT / name).parent
    return [f"{name}: link to {link}, which does not exist" for link in LINK.findall(text) if not (folder / link).exists()]


def floor_faults(text: str) -> list[str]:
    tree = ast.parse((ROOT / "scripts/check_layers.py").read_text())
    table = next(ast.literal_eval(n.value) for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "ALLOWED")
    told = {folder: "*" if see == "everything" else "" if see == "–" else see.replace(",", "") for folder, see in FLOOR.findall(text)}
    return [f"ARCHITECTURE.md, floors: {f} is '{told.get(f)}', in check_layers.py '{table.get(f)}'"
            for f in sorted(table.keys() | told.keys()) if table.get(f) != told.get(f)]


def main() -> int:
    files = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    faults = []
    for name in sorted({*files, *TOP}):
        text = (ROOT / name).read_text()
        faults += missing_links(name, text)
        if name in TOP:
            faults += missing_paths(name, text)
        if name == "ARCHITECTURE.md":
            faults += floor_faults(text)
            if len(text.splitlines()) > LINES:
                faults.append(f"{name}: {len(text.splitlines())} lines, limit {LINES}")
    print("\n".join(faults) or "documents: good")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
