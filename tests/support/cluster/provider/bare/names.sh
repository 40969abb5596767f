# What the bare provider calls things. STATE and NAME must be set.
# shellcheck shell=bash disable=SC2034

NET=kindling-$NAME-$(printf %s "$STATE" | cksum | cut -d' ' -f1) # network namespace and cgroup
NODE=onenode            # node name, and host name inside
NODE_IP=10.77.0.1       # the node's only address, on a bridge without ports
POD_CIDR=10.244.0.0/24
SVC_CIDR=10.96.0.0/16
API_SVC_IP=10.96.0.1
DNS_SVC_IP=10.96.0.10
ETC=$STATE/var/lib/onenode # /var/lib/onenode inside the node
CONTAINERD=$STATE/run/containerd/containerd.sock
