# The cluster's own network namespace: one address on a bridge without ports. Nothing of it is reachable from the machine's network.
# shellcheck shell=bash

in_net() { nsenter --net="/run/netns/$NET" "$@"; } # the cluster's network, this machine's files

make_network() {
  ip netns add "$NET"
  in_net ip link set lo up
  in_net ip link add node0 type bridge
  in_net ip addr add "$NODE_IP/24" dev node0
  in_net ip link set node0 up
  in_net ip route add default dev node0 # so that iptables sees packets to ClusterIPs
  in_net sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0
}

remove_network() { [ ! -e "/run/netns/$NET" ] || ip netns del "$NET"; }

# The kubelet writes some settings of the whole machine. Their old values are kept once for all clusters and put back by the last one.
save_sysctls() {
  local saved=$CACHE/cluster/.sysctl
  [ -e "$saved" ] || sysctl vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops fs.inotify.max_user_instances > "$saved"
  [ "$(sysctl -n fs.inotify.max_user_instances)" -ge 1024 ] || sysctl -qw fs.inotify.max_user_instances=1024
}

restore_sysctls() {
  local saved=$CACHE/cluster/.sysctl pids=("$CACHE"/cluster/*/pid)
  if [ -e "$saved" ] && [ ! -e "${pids[0]}" ]; then
    sysctl -q -p "$saved" || true
    rm -f "$saved"
  fi
}
