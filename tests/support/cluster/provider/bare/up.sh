# Starting the node.
# shellcheck shell=bash

# bare_up: programs are built and no other up or down runs. Goes on where an interrupted one stopped.
bare_up() {
  PYTHON=$(find_python)
  if ! provider_alive; then
    bare_down
    link_programs core registry helm
    write_configuration
    make_network
    make_cgroups
    save_sysctls
    launch
  fi
  provider_release_all
  wait_for 90 containerd ctr -a "$CONTAINERD" version
  local image
  for image in "$(group_dir core)"/images/*.tar; do load_once "$image"; done
  say "containerd is up and has the images"
  wait_for 90 "the registry" curl -fsS "http://127.0.0.1:$REGISTRY_PORT/v2/"
  wait_for 180 "the API server" admin get --raw /readyz
  say "API server ready"
  wait_for 90 "the add-ons to apply" admin apply --server-side --force-conflicts -f "$HERE/manifests/"
  [ -z "${FAKE_GPUS:-}" ] || { link_programs fakegpu; provider_fakegpu "$FAKE_GPUS"; }
  wait_for 180 "the node to be Ready" admin wait --for=condition=Ready "node/$NODE" --timeout=1s
  say "node Ready"
  wait_for 180 "cluster DNS" admin -n kube-system rollout status deploy/coredns --timeout=1s
  say "DNS ready"
}

# Through the relay, as a user would: so that `up` proves the whole way.
admin() { "$STATE/bin/kubectl" --kubeconfig "$STATE/kubeconfig" "$@"; }

write_configuration() {
  mkdir -p "$ETC"/{cni,services,certs.d} "$STATE"/{run,var/log/onenode} "$STATE/var/lib/kindling/volumes"
  make_pki "$ETC/pki"
  local file v
  for file in "$BARE"/config/*; do render < "$file" > "$ETC/${file##*/}"; done
  mkdir -p "$ETC/certs.d/localhost:$REGISTRY_PORT"
  mv "$ETC/bridge.conflist" "$ETC/cni/10-bridge.conflist"
  mv "$ETC/hosts.toml" "$ETC/certs.d/localhost:$REGISTRY_PORT/hosts.toml"
  cp "$BARE/node.sh" "$HERE/relay.py" "$ETC/"
  for file in $BASE_SERVICES; do cp "$BARE/services/$file.sh" "$ETC/services/"; done
  echo "nameserver $DNS_SVC_IP" > "$ETC/resolv.conf" # dnsPolicy Default: there is no other name server
  {
    declare -p NODE NODE_IP POD_CIDR SVC_CIDR REGISTRY_PORT PYTHON
    for v in APISERVER_ARGS CONTROLLER_MANAGER_ARGS NODE_LABELS; do printf '%s=%q\n' $v "${!v:-}"; done
  } > "$ETC/env"
  (umask 077; write_kubeconfig "$ETC/pki" admin "https://127.0.0.1:$API_PORT" > "$STATE/kubeconfig")
}

BASE_SERVICES="etcd containerd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy registry relay"

render() {
  sed -e "s#__CGROUP__#/$NET#g; s#__NODE_IP__#$NODE_IP#g; s#__DNS_SVC_IP__#$DNS_SVC_IP#g; s#__POD_CIDR__#$POD_CIDR#g; s#__REGISTRY_PORT__#$REGISTRY_PORT#g"
}

# launch: the relay's listening sockets are made here, in the machine's network, and handed down: a socket stays where it was made.
launch() {
  (
    enter_cgroups
    exec 9>&-
    exec setsid "$PYTHON" "$HERE/relay.py" listen "$API_PORT" "$REGISTRY_PORT" -- nsenter --net="/run/netns/$NET" \
      unshare --pid --mount --uts --ipc --fork --kill-child --mount-proc --propagation private bash "$ETC/node.sh" "$STATE"
  ) > "$STATE/node.log" 2>&1 < /dev/null &
  local pid=$!
  disown
  echo "$pid $(start_time $pid)" > "$STATE/pid"
}
