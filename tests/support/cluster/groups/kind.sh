# The kind command.
# shellcheck shell=bash disable=SC2034
module=kind
packages=(sigs.k8s.io/kind)
usually="10 seconds"
