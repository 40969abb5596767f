# shellcheck shell=bash
# What the local storage need not keep. Called with the lock of images/build held.
: "${root:?}" "${CACHE:?}"
KEPT=3 # builds of an image: its layers of packages are shared, its own code is small

# release_stale : mounts and working containers that no running program uses any more. Builds that
# are killed leave none of the former (see `contained`), but earlier versions of these scripts did.
release_stale() {
  local id name
  unmount_below "$CACHE/images/storage"
  while read -r id name; do
    in_use "$name" || store rm "$id" >/dev/null || true
  done < <(store containers --noheading --format '{{.ContainerID}} {{.ContainerName}}')
}

# in_use CONTAINER : those of tests are called kindling-test-PID-…; all others are of builds.
in_use() {
  local pid
  [[ $1 =~ ^kindling-test-([0-9]+)- ]] || return 1
  pid=${BASH_REMATCH[1]}
  [ -d "/proc/$pid" ]
}

# unmount_below FOLDER [OPTION] : the last mounted first
unmount_below() {
  local at
  while read -r at; do
    # shellcheck disable=SC2086 # an option or nothing
    umount ${2:-} "${at//\\040/ }" || say "$at is still mounted and in use: end what uses it (fuser -vm $at)"
  done < <(awk -v below="$1/" 'index($2, below) == 1 { print $2 }' /proc/self/mounts | tac)
}

# prune IMAGE : after a build of it. Keeps the newest builds (listed first) of the same packages,
# and every layer that some image has; builds of other packages go, since each takes gigabytes.
prune() {
  local image=$1 same all id
  # Not `head`, which hangs up on a program that still writes, and that one then fails.
  same=$(images_of "$image" --filter "label=dev.kindling.packages=$(packages_of "$image")" | awk -v kept="$KEPT" 'NR <= kept')
  all=$(images_of "$image")
  for id in $all; do
    [[ $same == *"$id"* ]] || store rmi --force "$id" >/dev/null 2>&1 || true
  done
  while id=$(store images --quiet --no-trunc --filter dangling=true) && [ -n "$id" ]; do
    # shellcheck disable=SC2086 # a list
    store rmi $id >/dev/null 2>&1 || break
  done
}

images_of() { store images --quiet --no-trunc --filter "reference=localhost/kindling/$1" "${@:2}"; }
