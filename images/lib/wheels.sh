# shellcheck shell=bash
# The wheels of the lock files, in $CACHE/wheels. Fetched once; the build itself needs no index.
: "${root:?}" "${CACHE:?}"

PIP=pip==26.1
AT_ONCE=12 # packages one call of pip fetches: what an interruption can lose
NEEDED_GIB=10 # wheels 2.5, the storage of all images 6; a registry and a node take as much again

# fetch_wheels LOCK... : every wheel that the locks name, with the right hash
fetch_wheels() {
  local parts lock log todo=()
  find_uv >/dev/null
  mkdir -p "$CACHE/wheels/.done"
  rm -rf "$CACHE"/wheels/.parts.* # of a run that was interrupted
  parts=$(mktemp -d "$CACHE/wheels/.parts.XXXXXX")
  for lock in "$@"; do
    awk -v size="$AT_ONCE" -v out="$parts/$(sha256sum <"$lock" | cut -c1-12)" '
      /^[A-Za-z0-9]/ { n++ } /^#/ { next } { print > sprintf("%s-%03d", out, (n - 1) / size) }' "$lock"
  done
  for part in "$parts"/*; do
    [ ! -e "$part" ] || [ -e "$CACHE/wheels/.done/${part##*/}" ] || todo+=("$part") # no part: an empty lock
  done
  if [ ${#todo[@]} -gt 0 ]; then
    need_space "$CACHE" "$NEEDED_GIB"
    log=$CACHE/images/wheels.log
    printf '"%s"\n' "${todo[@]}" >"$parts/todo"
    attend "$log" "fetching the wheels of ${#todo[@]} groups of packages" "1 minute for all" \
      "$root/images/lib/contained" xargs --arg-file "$parts/todo" --max-args 1 --max-procs 3 \
      "$root/images/lib/fetch" "$CACHE/wheels" "$root/.venv" "$PIP" ||
      die "some wheels could not be fetched: $(last_words "$log"); run this again, what is there is kept; all of it: $log"
  fi
  rm -rf "$parts"
}
