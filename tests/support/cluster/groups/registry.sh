# The image registry in the cluster's network (distribution v3, file storage only).
# shellcheck shell=bash disable=SC2034
module=registry
packages=(.)
sources=(main.go)
usually="25 seconds"
