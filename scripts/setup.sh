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
packages_long="python3-pil python3-onnx python3-numpy"

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

# unpack_debian FOLDER PACKAGE...: their files, not installed.
unpack_debian() {
  local folder=$1
  shift
  apt_update_once
  chmod 755 "$folder"
  (cd "$folder" && apt-get download -qq "$@" >/dev/null 2>&1 && for deb in *.deb; do dpkg -x "$deb" .; done)
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
  local work
  work=$(mktemp -d)
  unpack_debian "$work" python3-skimage
  mkdir -p "$dir"
  for name in astronaut.png coffee.png chelsea.png rocket.jpg; do
    cp "$work"/usr/lib/python3/dist-packages/skimage/data/$name "$dir"/
  done
  cp "$work"/usr/share/doc/python3-skimage/copyright "$dir"/copyright
  rm -rf "$work"
  (cd "$dir" && printf '%s\n' "$photo_hashes" | sha256sum --check --quiet)
}

# For tests/ocr: a text recogniser and ONNX Runtime from npm (versions and hashes: tests/ocr/package-lock.json), fonts
# from Debian (unpacked, not installed).
font_hashes="abdc775b21b1bc470d50c97e790d276f2054b7504e56e5bd3e64f48d68582322  DejaVuSans.ttf
e2fd85eba2de65ac270d1cdb1685e252eb827f600850cf62af2d20c41b22e945  DejaVuSerif-Bold.ttf
0f5db4f1749979d961019838b160bec74abdf7f9eca69553fe1aa856bbff49a4  DejaVuSansMono.ttf
0d977336a6d5fba34eab8e3199eb218327161b5143749f802982c2bc34df0c96  DejaVuSans-Bold.ttf
1c9c77c2cd0f3c2d2aeef53ea50a4d5d3d684ac73a431d7c70d7864887d194a3  LiberationSerif-Regular.ttf
361c61b82d575c5c35fd9157fda8b0194bcfcd0d88ea8521a4fb5dd53d33dddc  LiberationSans-Bold.ttf
ab9719545aeb24156c462601f92bf4897130beaac59ad79bea7da264bce69b19  LiberationSansNarrow-Regular.ttf
267ae0b63fc67980d11fc4cbb630de84d845c6bf350988ec56766baf98706b8b  LiberationMono-Bold.ttf
832b4406dbef23628800d3aaad21048534ac84d7e3ad955be83b8172ed8ef512  LiberationSans-Italic.ttf
af228b9de767e5162168e433351b3d0e086648219c6c12ed888fba0bda3694d5  LiberationSerif-Bold.ttf
79c18ebe7b811951e8311bad7103ebeae8c337ed9988ea69e8a78a66cfe029b9  wqy-zenhei.ttc"

fetch_ocr() {
  local dir=build/release/ocr
  mkdir -p "$dir/fonts"
  if [ ! "$dir/node_modules/.package-lock.json" -nt tests/ocr/package-lock.json ]; then
    say "fetching the text recogniser and ONNX Runtime from npm"
    cp tests/ocr/package.json tests/ocr/package-lock.json "$dir"
    npm ci --prefix "$dir" --ignore-scripts --no-audit --no-fund --silent
    touch "$dir/node_modules/.package-lock.json"
  fi
  if (cd "$dir/fonts" && printf '%s\n' "$font_hashes" | sha256sum --check --status 2>/dev/null); then return; fi
  say "fetching fonts from Debian"
  local work
  work=$(mktemp -d)
  unpack_debian "$work" fonts-dejavu-core fonts-liberation fonts-wqy-zenhei
  cp "$work"/usr/share/fonts/truetype/{dejavu,liberation,wqy}/* "$dir/fonts"
  rm -rf "$work"
  (cd "$dir/fonts" && printf '%s\n' "$font_hashes" | sha256sum --check --quiet)
}

build_preset() {  # [build_targets="..."] build_preset PRESET [cmake options...]
  local preset=$1
  shift
  cmake --preset "$preset" "$@" >"build-$preset.log" 2>&1 || { cat "build-$preset.log" >&2; return 1; }
  rm -f "build-$preset.log"
  # shellcheck disable=SC2086
  cmake --build --preset "$preset" -- --quiet ${build_targets:-}
}
