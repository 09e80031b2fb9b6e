#!/bin/sh
# Builds every fuzz target with clang and runs each for MINUTES (default 10): scripts/fuzz.sh [MINUTES].
# Corpora grow in build/fuzz/corpus/<target>; a finding stays there as <target>-crash-* and the script fails.
set -eu
cd "$(dirname "$0")/.."
minutes=${1:-10}
cmake --preset fuzz >/dev/null
# shellcheck disable=SC2046
cmake --build build/fuzz --target $(for f in fuzz/*_fuzz.cpp; do basename "$f" .cpp; done)
failed=0
for source in fuzz/*_fuzz.cpp; do
  name=$(basename "$source" .cpp)
  corpus=build/fuzz/corpus/$name
  mkdir -p "$corpus"
  seeds=fuzz/seeds/$name
  [ -d "$seeds" ] || seeds=
  echo "$name: $minutes minutes"
  if ! "build/fuzz/bin/$name" -max_total_time=$((minutes * 60)) -timeout=60 -rss_limit_mb=4096 -len_control=10 \
    -artifact_prefix="build/fuzz/corpus/$name-" "$corpus" ${seeds:+"$seeds"} >"build/fuzz/$name.log" 2>&1; then
    echo "$name: FAILED, see build/fuzz/$name.log"
    failed=1
  fi
  tail -n 3 "build/fuzz/$name.log"
done
exit $failed
