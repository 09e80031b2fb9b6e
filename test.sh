#!/usr/bin/env bash
# Installs what is missing, builds, and runs every check: format, include direction, file sizes, documents, unit, golden,
# property, error and end-to-end tests (release), the fast tests under ASan and UBSan, the parallel loops under TSan.
# `./test.sh --long` adds the long suites.
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=scripts/setup.sh
. scripts/setup.sh

# shellcheck disable=SC2086
install_missing $packages_build $packages_test
install_node
fetch_photos

say "format, include direction, sizes, documents"
git ls-files '*.h' '*.cpp' | xargs clang-format-19 --dry-run --Werror
python3 scripts/check_layers.py
python3 scripts/check_sizes.py
python3 scripts/check_docs.py

say "building (release)"
build_preset release -DTW_TESTS=ON -DTW_BENCH=ON
say "tests (release)"
ctest --test-dir build/release --output-on-failure -j 2
if [ "${1:-}" = --long ]; then
  # shellcheck disable=SC2086
  install_missing $packages_long
  fetch_ocr
  say "long tests"
  TILEWRIGHT_LONG=1 ctest --test-dir build/release --output-on-failure -L long
fi

say "building (asan-ubsan)"
build_preset asan-ubsan
say "fast tests under ASan and UBSan"
ctest --test-dir build/asan-ubsan --output-on-failure -j 2 -LE "slow|long"

say "building (tsan)"
build_targets=parallel_tests build_preset tsan
say "parallel loops under TSan"
build/tsan/bin/parallel_tests
