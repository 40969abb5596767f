# A device plugin: its pretended GPUs survive restarts of the kubelet, and each container learns its device ids.
# shellcheck shell=bash
exec fakegpu --count "$(cat /var/lib/onenode/fake-gpus)"
