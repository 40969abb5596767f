# Ending the node: only what was recorded. Images, the registry's storage and certificates stay for the next up.
# shellcheck shell=bash

bare_down() {
  find_cgroups
  stop_node
  remove_cgroups
  remove_network
  restore_sysctls
  # No mount of ours can be left: they lived in the node's mount namespace.
  if grep -q " $STATE/" /proc/self/mounts; then die "something is still mounted under $STATE: unmount it and run this again"; fi
  # shellcheck disable=SC2115 # STATE is never empty: use_state made it
  rm -rf "$STATE"/var/lib/{etcd,kubelet,cni,kindling} "$STATE"/run "$STATE"/var/log/{pods,containers} "$STATE"/bin \
    "$STATE/kubeconfig" "$ETC/services"
}

# stop_node: the kernel ends everything in a pid namespace with its first process, and unshare ends that one with itself.
stop_node() {
  local pid _
  if provider_alive; then
    read -r pid _ < "$STATE/pid"
    kill -KILL "$pid" 2>/dev/null || true
    for _ in $(seq 100); do
      provider_alive || break
      sleep 0.1
    done
  fi
  rm -f "$STATE/pid"
}
