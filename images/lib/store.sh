# shellcheck shell=bash
# buildah with a storage of our own, so that nobody's images are touched and `rm -r` frees it all.
: "${root:?}" "${CACHE:?}"

store() {
  buildah --root "$CACHE/images/storage" --runroot "$CACHE/images/run" "$@"
}

# have_image REFERENCE
have_image() {
  store inspect --type image --format '{{.FromImageID}}' "$1" >/dev/null 2>&1
}

# base_name : reference of the base image. A local one carries the hash of what it is made from;
# Debian's own updates do not change it.
base_name() {
  if [ -n "${KINDLING_BASE:-}" ]; then
    printf '%s\n' "$KINDLING_BASE"
  else
    printf 'localhost/kindling-base:%s\n' "$(sha256sum <"$root/images/lib/debian.sh" | cut -c1-12)"
  fi
}

# ensure_base : makes the local base image if it is the one to use and is not there
ensure_base() {
  local reference
  reference=$(base_name)
  if [ -n "${KINDLING_BASE:-}" ] || have_image "$reference"; then return; fi
  say "making the base image from Debian packages (about 30 s)"
  make_base "$root/images/lib/debian.sh" "$reference"
}

make_base() {
  local recipe=$1 reference=$2 tar=$CACHE/images/base.tar log=$CACHE/images/base.log container
  "$recipe" "$tar" >"$log" 2>&1 || die "mmdebstrap could not make the base image: see $log"
  container=$(store from scratch)
  store add --quiet "$container" "$tar" / >/dev/null
  store config --cmd '[]' "$container"
  store commit --quiet "$container" "$reference" >/dev/null
  store rm "$container" >/dev/null
  rm "$tar"
}

# build_image IMAGE TAG BASE LABEL_VERSION
build_image() {
  local image=$1 tag=$2 base=$3 version=$4 log=$CACHE/images/$1.log
  local arguments=(
    --isolation chroot --layers --file "$root/images/$image/Containerfile"
    --build-arg "BASE=$base" --build-arg "VERSION=$version"
    --build-context "wheels=$CACHE/wheels" --build-context "uv=$root/.venv/bin"
    --build-context "lock=$(lock_folder "$image")"
    --tag "localhost/kindling/$image:$tag"
  )
  say "building $image"
  store build "${arguments[@]}" "$root" 2>&1 | tee "$log" |
    sed -un 's/^STEP \(.\{0,90\}\).*/images:           \1/p' >&2 ||
    die "$image could not be built: $(grep -v '^STEP' "$log" | tail -3 | tr '\n' ' '); all of it: $log"
}

# forget_old_images IMAGE : keeps the three newest builds (listed first) and the layers they share
forget_old_images() {
  store images --quiet --no-trunc --filter "reference=localhost/kindling/$1" | tail -n +4 |
    while read -r id; do store rmi --force "$id" >/dev/null 2>&1 || true; done
}
