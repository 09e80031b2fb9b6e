#!/bin/sh
# Rewrites tests/golden/<stage>/*.txt from the present compiler: scripts/update_goldens.sh BUILD_DIR.
# Read `git diff tests/golden` before committing.
set -eu
build=${1:?usage: update_goldens.sh BUILD_DIR}
cmake --build "$build" --target golden_tests
TW_UPDATE_GOLDENS=1 "$build/bin/golden_tests"
