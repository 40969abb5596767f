# shellcheck shell=bash
# Pushing to a registry, and asking it what it has.
: "${root:?}" "${CACHE:?}"

MANIFEST=application/vnd.oci.image.manifest.v1+json

# local_registry REGISTRY : whether it is one of this machine, which speaks plain HTTP
local_registry() {
  case $1 in localhost | localhost:* | 127.0.0.1 | 127.0.0.1:*) ;; *) return 1 ;; esac
}

# pushed_digest REGISTRY IMAGE TAG : the digest that the registry has for the tag, or nothing. A
# registry that wants credentials says nothing here; then the push finds out which layers it has.
pushed_digest() {
  local scheme=https
  ! local_registry "$1" || scheme=http
  curl --silent --fail --head --max-time 10 --header "Accept: $MANIFEST" \
    "$scheme://$1/v2/kindling/$2/manifests/$3" | tr -d '\r' | sed -n 's/^[Dd]ocker-[Cc]ontent-[Dd]igest: //p' || true
}

# push_image REGISTRY IMAGE TAG : prints the digest. zstd at level 1 pushes and pulls faster than gzip at
# its fastest (docs/images.md has the figures); containerd takes it since 1.5.
push_image() {
  local digest=$CACHE/images/pushed log=$CACHE/images/push.log usually=5 tls=()
  ! local_registry "$1" || tls=(--tls-verify=false)
  [ "$2" = operator ] || usually=40
  attend "$log" "pushing $2 to $1" "$usually s if the registry has none of it, 1 s after a change of our code" \
    "$root/images/lib/buildah" push "${tls[@]}" --format oci --compression-format zstd --compression-level 1 \
    --digestfile "$digest" "localhost/kindling/$2:$3" "docker://$1/kindling/$2:$3" ||
    die "$2 could not be pushed to $1: $(last_words "$log"); is the registry running, and are you logged in (buildah login)?"
  cat "$digest"
}
