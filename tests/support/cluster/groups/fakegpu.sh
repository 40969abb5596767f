# A device plugin that offers pretended nvidia.com/gpu devices.
# shellcheck shell=bash disable=SC2034
module=core
packages=(./cmd/fakegpu)
sources=(cmd/fakegpu)
usually="5 seconds beside core"
