# shellcheck shell=bash
# The wheels of the lock files, in $CACHE/wheels. Fetched once; the build itself needs no index.
: "${root:?}" "${CACHE:?}"

PIP=pip==26.1
AT_ONCE=12 # packages one call of pip fetches: what an interruption can lose
NEEDED_GIB=10 # wheels 2.5, the storage of all images 6; a registry and a node take as much again

# fetch_wheels LOCK... : every wheel that the locks name, with the right hash
fetch_wheels() {
  local parts lock todo=()
  find_uv >/dev/null
  mkdir -p "$CACHE/wheels/.done"
  rm -rf "$CACHE"/wheels/.parts.* # of a run that was interrupted
  parts=$(mktemp -d "$CACHE/wheels/.parts.XXXXXX")
  for lock in "$@"; do
    awk -v size="$AT_ONCE" -v out="$parts/$(sha256sum <"$lock" | cut -c1-12)" '
      /^[A-Za-z0-9]/ { n++ } /^#/ { next } { print > sprintf("%s-%03d", out, (n - 1) / size) }' "$lock"
  done
  for part in "$parts"/*; do
    [ -e "$CACHE/wheels/.done/${part##*/}" ] || todo+=("$part")
  done
  if [ ${#todo[@]} -gt 0 ]; then
    need_space "$CACHE" "$NEEDED_GIB"
    say "fetching the wheels of ${#todo[@]} groups of packages (about 1 minute for all)"
    printf '%s\0' "${todo[@]}" | xargs -0 -n 1 -P 3 "$root/images/lib/fetch" "$CACHE/wheels" "$root/.venv" "$PIP" ||
      die "some wheels could not be fetched: see the message of pip above, then run this again; what is there is kept"
  fi
  rm -rf "$parts"
}
