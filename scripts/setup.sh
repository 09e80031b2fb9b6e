# Sourced by run.sh and test.sh: installs what is missing on a Debian 12 and fetches the photographs.
# shellcheck shell=bash

# The compiler cache serves every clone of the tree, whatever its folder.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

say() { printf '== %s\n' "$*" >&2; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
    say "need root or sudo for: $*"; return 1
  fi
}

packages_build="g++-12 cmake ninja-build pkg-config git ca-certificates ccache binutils python3
  capnproto libcapnp-dev libxxhash-dev libhwy-dev libopenblas-pthread-dev libtomlplusplus-dev libcli11-dev libfmt-dev
  libspdlog-dev nlohmann-json3-dev libstb-dev libssl-dev libonnx-dev libprotobuf-dev protobuf-compiler"
packages_test="libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev clang-19 clang-tidy-19 clang-format-19
  libclang-rt-19-dev llvm-19 chromium fonts-dejavu-core groff-base libonnx-testdata"

apt_updated=0
apt_update_once() {
  [ "$apt_updated" = 1 ] && return
  as_root apt-get update -qq
  apt_updated=1
}

# install_missing PACKAGE...: only what dpkg does not have.
install_missing() {
  local missing=()
  for p in "$@"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p")
  done
  [ ${#missing[@]} = 0 ] && return
  say "installing ${#missing[@]} packages: ${missing[*]}"
  apt_update_once
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Node and npm bundle the report page. Other builds of Node than Debian's bring their own npm: ask for the programs.
install_node() {
  if command -v node >/dev/null && command -v npm >/dev/null; then return; fi
  install_missing nodejs npm
}

# Real photographs from Debian's python3-skimage (unpacked, not installed), checked by hash; see photos/README.
photo_hashes="88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5  astronaut.png
cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7  coffee.png
596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb  chelsea.png
c2dd0de7c538df8d111e479619b129464d0269d0ae5fd18ca91d33a7fdfea95c  rocket.jpg"

fetch_photos() {
  local dir=photos
  if [ -d "$dir" ] && (cd "$dir" && printf '%s\n' "$photo_hashes" | sha256sum --check --status 2>/dev/null); then return; fi
  say "fetching photographs from Debian's python3-skimage"
  apt_update_once
  local work
  work=$(mktemp -d)
  chmod 755 "$work"
  (cd "$work" && apt-get download -qq python3-skimage >/dev/null 2>&1 && dpkg -x ./*.deb unpacked)
  mkdir -p "$dir"
  for name in astronaut.png coffee.png chelsea.png rocket.jpg; do
    cp "$work"/unpacked/usr/lib/python3/dist-packages/skimage/data/$name "$dir"/
  done
  cp "$work"/unpacked/usr/share/doc/python3-skimage/copyright "$dir"/copyright
  rm -rf "$work"
  (cd "$dir" && printf '%s\n' "$photo_hashes" | sha256sum --check --quiet)
}

build_preset() {  # [build_targets="..."] build_preset PRESET [cmake options...]
  local preset=$1
  shift
  cmake --preset "$preset" "$@" >"build-$preset.log" 2>&1 || { cat "build-$preset.log" >&2; return 1; }
  rm -f "build-$preset.log"
  # shellcheck disable=SC2086
  cmake --build --preset "$preset" -- --quiet ${build_targets:-}
}
