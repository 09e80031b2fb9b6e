#!/usr/bin/env bash
# Installs what is missing, builds, and runs the main job: the PE-Core L/14 probe at full depth, batch two, capacity
# policy, two photographs, two resident calls on 1,472 simulated tiles, checked against FP32; at the end our figures
# beside the seed's. `--quick`: one full-width SigLIP layer instead. `--build-only` stops before the job.
set -euo pipefail
cd "$(dirname "$0")"
case "${1:-}" in
  '' | --quick | --build-only) ;;
  *) echo "usage: ./run.sh [--quick | --build-only]" >&2; exit 2 ;;
esac
# shellcheck source=scripts/setup.sh
. scripts/setup.sh

# shellcheck disable=SC2086
install_missing $packages_build
install_node
say "building (release)"
build_preset release -DTW_TESTS=OFF -DTW_BENCH=OFF
[ "${1:-}" = --build-only ] && exit 0
fetch_photos
if [ "${1:-}" = --quick ]; then
  say "SigLIP So400m/14, one layer at full width, FP8, from photos/astronaut.png"
  exec build/release/bin/tilewright e2e siglip-so400m --layers 1 --image photos/astronaut.png --calls 2 --reference both
fi
say "PE-Core L/14 probe, 24 layers, batch 2, capacity policy, FP8, from photos/astronaut.png and photos/coffee.png"
exec build/release/bin/tilewright e2e pe-core-l14-capacity --layers 24 --batch 2 --policy capacity \
  --image photos/astronaut.png --image photos/coffee.png --calls 2 --reference fp32
