# shellcheck shell=bash
# Sourced by the scripts of this folder, which set $root to the top of the repository.
: "${root:?}"
export CACHE=${KINDLING_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kindling}
STARTED=${EPOCHREALTIME/./}

# say TEXT... : a line of progress with the time since the start, on stderr (stdout is for results)
say() {
  local ms=$(((${EPOCHREALTIME/./} - STARTED) / 1000))
  printf 'images: %4d.%d s  %s\n' $((ms / 1000)) $((ms % 1000 / 100)) "$*" >&2
}

# die TEXT... : one sentence that says what is wrong and what to do
die() {
  printf 'images: %s\n' "$*" >&2
  exit 1
}

# find_uv : path of the uv of the development environment
find_uv() {
  [ -x "$root/.venv/bin/uv" ] || die "$root/.venv/bin/uv is missing: run 'make .venv' first"
  printf '%s\n' "$root/.venv/bin/uv"
}

# one_at_a_time : hold the lock of the local storage until this process ends
one_at_a_time() {
  mkdir -p "$CACHE/images"
  exec 9>>"$CACHE/images/lock"
  flock --nonblock 9 || { say "waiting for another images/build to finish"; flock 9; }
}
