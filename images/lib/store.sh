# shellcheck shell=bash
# The local storage of images.
: "${root:?}" "${CACHE:?}"

store() { "$root/images/lib/buildah" "$@"; }

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
  make_base "$root/images/lib/debian.sh" "$reference"
}

make_base() {
  local recipe=$1 reference=$2 tar=$CACHE/images/base.tar log=$CACHE/images/base.log container
  attend "$log" "making the base image from Debian packages" "30 s" "$root/images/lib/contained" "$recipe" "$tar" ||
    die "mmdebstrap could not make the base image: $(last_words "$log"); all of it: $log"
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
    --label "dev.kindling.packages=$(packages_of "$image")"
    --tag "localhost/kindling/$image:$tag"
  )
  attend "$log" "building $image" "$(usual_build "$image")" "$root/images/lib/buildah" build "${arguments[@]}" "$root" ||
    die "$image could not be built: $(last_words "$log"); all of it: $log"
}

# Of docs/images.md, on two idle cores.
usual_build() {
  case $1 in
    operator) echo "10 s from nothing, 3 s after a change of our code" ;;
    runtime-cpu) echo "2 minutes from nothing, most of it in the two steps install-wheels; 3 s after a change of our code" ;;
    *) echo "10 minutes from nothing, 3 s after a change of our code" ;;
  esac
}

# packages_of IMAGE : a hash of what its large layers are made from
packages_of() {
  { base_name && cat "$(lock_folder "$1")"/*.lock "$root/images/$1/Containerfile" "$root"/images/steps/*; } |
    sha256sum | cut -c1-16
}
