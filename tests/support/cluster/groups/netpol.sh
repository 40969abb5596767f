# The NetworkPolicy engine.
# shellcheck shell=bash disable=SC2034
module=core
packages=(./cmd/netpol)
sources=(cmd/netpol)
usually="10 seconds beside core"
