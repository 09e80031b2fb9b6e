#!/usr/bin/env bash
# Installs what is missing, builds, and runs the main job: a photograph through one full-width SigLIP layer on
# 1,472 simulated tiles, two resident calls, checked. `./run.sh --build-only` stops before the job.
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=scripts/setup.sh
. scripts/setup.sh

# shellcheck disable=SC2086
install_missing $packages_build
say "building (release)"
build_preset release -DTW_TESTS=OFF -DTW_BENCH=OFF
[ "${1:-}" = --build-only ] && exit 0
fetch_photos
say "SigLIP So400m/14, one layer at full width, FP8, from photos/astronaut.png"
exec build/release/bin/tilewright e2e siglip-so400m --layers 1 --image photos/astronaut.png --calls 2 --reference both
