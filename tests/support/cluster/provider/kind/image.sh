# The node image of the pinned kind: the one that its release was made with (a test compares).
# shellcheck shell=bash

KIND_NODE_IMAGE=kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5

# node_image_available: is it here, or can it be pulled? A machine without a container registry says no within seconds.
node_image_available() {
  docker image inspect "$KIND_NODE_IMAGE" >/dev/null 2>&1 && return
  say "pulling the node image of kind (500 MB, usually 1 minute)"
  timeout 900 docker pull --quiet "$KIND_NODE_IMAGE" >/dev/null 2>&1
}
