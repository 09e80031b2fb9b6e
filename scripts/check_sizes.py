#!/usr/bin/env python3
"""Prints lines per folder and fails when a source file is longer than 600 lines."""
import collections
import pathlib
import sys

LIMIT = 600


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    lines = collections.Counter()
    faults = []
    for top in ("src", "web", "tests", "bench", "fuzz"):
        for path in sorted((root / top).rglob("*.*")):
            if path.suffix not in (".h", ".cpp", ".py", ".js", ".mjs", ".css") or "node_modules" in path.parts:
                continue
            count = len(path.read_text().splitlines())
            parts = path.relative_to(root).parts
            lines["/".join(parts[:2]) if len(parts) > 2 else parts[0]] += count
            if count > LIMIT:
                faults.append(f"{path.relative_to(root)}: {count} lines, limit {LIMIT}")
    for folder, count in sorted(lines.items()):
        print(f"{count:7d}  {folder}")
    print(f"{sum(lines.values()):7d}  total")
    print("\n".join(faults), file=sys.stderr)
    return 1 if faults else 0


sys.exit(main())
