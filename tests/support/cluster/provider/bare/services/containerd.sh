# shellcheck shell=bash
exec containerd --config /var/lib/onenode/containerd.toml
