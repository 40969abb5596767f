# shellcheck shell=bash
# Sourced by the scripts of this folder, which set $root to the top of the repository.
: "${root:?}"

# log MESSAGE... : progress for a person, on stderr (stdout is for results)
log() { printf 'images: %s\n' "$*" >&2; }

# die STATUS MESSAGE...
die() {
  local status=$1
  shift
  printf 'images: error: %s\n' "$*" >&2
  exit "$status"
}

# find_uv : path of the uv of the development environment, else of the machine
find_uv() {
  if [ -x "$root/.venv/bin/uv" ]; then
    printf '%s\n' "$root/.venv/bin/uv"
  else
    command -v uv || die 69 "uv is not installed: run 'make .venv' first."
  fi
}
