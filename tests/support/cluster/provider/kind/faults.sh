# Faults on purpose: static pods stop when their manifest is away, the rest are systemd units of the node.
# shellcheck shell=bash

# kind_component COMPONENT: pod or unit NAME.
kind_component() {
  case $1 in
    etcd | kube-apiserver | kube-controller-manager | kube-scheduler) echo pod ;;
    kubelet | containerd) echo "$1" ;;
    registry | kwok | fakegpu) echo "kindling-$1" ;;
    *) die "the kind provider cannot hold or kill '$1': it must be etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, containerd, registry, kwok or fakegpu" ;;
  esac
}

provider_kill() {
  local what
  what=$(kind_component "$1")
  if [ "$what" = pod ]; then
    # shellcheck disable=SC2016 # expanded inside the node
    docker exec "$KIND_NODE" sh -c 'kill -KILL $(pidof "$0")' "$1"
  else
    docker exec "$KIND_NODE" systemctl kill --signal=KILL "$what"
  fi
}

provider_hold() {
  local what
  what=$(kind_component "$1")
  if [ "$what" = pod ]; then
    docker exec "$KIND_NODE" mv "/etc/kubernetes/manifests/$1.yaml" "/etc/kubernetes/$1.held"
    provider_kill "$1" || true
  else
    docker exec "$KIND_NODE" systemctl stop "$what"
  fi
}

provider_release() {
  local what
  what=$(kind_component "$1")
  if [ "$what" = pod ]; then
    docker exec "$KIND_NODE" mv "/etc/kubernetes/$1.held" "/etc/kubernetes/manifests/$1.yaml"
  else
    docker exec "$KIND_NODE" systemctl start "$what"
  fi
  [ "$1" != kube-apiserver ] || wait_for 90 "the API server" "$STATE/bin/kubectl" --kubeconfig "$STATE/kubeconfig" get --raw /readyz
}

# provider_release_all: a test that died may have left something held down.
provider_release_all() {
  local file name
  for file in $(docker exec "$KIND_NODE" sh -c 'ls /etc/kubernetes/*.held 2>/dev/null'); do
    name=${file##*/}
    provider_release "${name%.held}"
  done
  docker exec "$KIND_NODE" systemctl start containerd kubelet
}

provider_cut() { die "the kind provider has no relay to cut: kill kube-apiserver instead"; }
