#!/bin/sh
# Installs the program verdigris of a release: curl -fsSL URL/install.sh | sh
#
#   VERDIGRIS_BIN    the folder of the program [~/.local/bin]
#   VERDIGRIS_MAN    the folder of its manual pages [~/.local/share/man]
#   VERDIGRIS_URL    the address of the files of the release, also file:///FOLDER [that of this script's release]
#
# Downloads one archive for this machine and the checksums, compares them, and copies the files. Nothing else changes.
set -eu

fail() {
  printf 'install.sh: %s\n' "$1" >&2
  exit 1
}

fetch() {
  if command -v curl > /dev/null; then
    curl -fsSL --retry 3 -o "$2" "$1" || fail "cannot download $1"
  elif command -v wget > /dev/null; then
    case $1 in file://*) cp "${1#file://}" "$2" || fail "cannot read $1"; return ;; esac
    wget -q -O "$2" "$1" || fail "cannot download $1"
  else
    fail 'curl or wget is needed: install one of them'
  fi
}

sha256() {
  if command -v sha256sum > /dev/null; then
    sha256sum "$1" | cut -d ' ' -f 1
  elif command -v shasum > /dev/null; then
    shasum -a 256 "$1" | cut -d ' ' -f 1
  else
    fail 'sha256sum or shasum is needed to check what is downloaded'
  fi
}

# In a function that the last line calls, so that a script of which only a part has arrived does nothing.
main() {
  version='@VERSION@' url=${VERDIGRIS_URL:-'@URL@'}
  bin=${VERDIGRIS_BIN:-$HOME/.local/bin} man=${VERDIGRIS_MAN:-$HOME/.local/share/man}
  system=$(uname -s) machine=$(uname -m)
  case $system-$machine in
    Linux-x86_64) target=x86_64-unknown-linux-musl ;;
    Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-musl ;;
    *) fail "there is a program for Linux on x86-64 and ARM, and not for $system on $machine: \
build it with cargo install --git @REPOSITORY@ --tag v$version verdigris-cli" ;;
  esac
  name=verdigris-$version-$target
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  trap 'exit 1' HUP INT TERM
  fetch "$url/SHA256SUMS" "$folder/SHA256SUMS"
  fetch "$url/$name.tar.gz" "$folder/$name.tar.gz"
  expected=$(awk -v file="$name.tar.gz" '$2 == file { print $1 }' "$folder/SHA256SUMS")
  [ -n "$expected" ] || fail "$url/SHA256SUMS has no checksum of $name.tar.gz"
  found=$(sha256 "$folder/$name.tar.gz")
  [ "$expected" = "$found" ] || fail "$url/$name.tar.gz is damaged or was changed: its SHA-256 is $found and not \
$expected. Nothing was installed"
  tar -xzf "$folder/$name.tar.gz" -C "$folder"
  mkdir -p "$bin" "$man/man1"
  # Renamed into its folder, so that a program that runs keeps its file.
  cp "$folder/$name/verdigris" "$bin/.verdigris.new"
  chmod 755 "$bin/.verdigris.new"
  mv -f "$bin/.verdigris.new" "$bin/verdigris"
  cp "$folder/$name"/man/*.1 "$man/man1/"
  "$bin/verdigris" --version > /dev/null || fail "$bin/verdigris does not start on this machine"
  printf 'verdigris %s is in %s\n' "$version" "$bin"
  case :$PATH: in
    *:"$bin":*) printf 'try it: verdigris demo\n' ;;
    *) printf 'add it to your PATH: export PATH="%s:$PATH"\n' "$bin" ;;
  esac
}

main
