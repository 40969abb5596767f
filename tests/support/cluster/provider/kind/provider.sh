# The kind provider: a node in a Docker container, made by the pinned kind command.
# The same functions as provider/bare/provider.sh, to be read beside it.
# shellcheck shell=bash source-path=SCRIPTDIR

KIND=$HERE/provider/kind
. "$KIND/image.sh"
. "$KIND/faults.sh"

# shellcheck disable=SC2034
PROVIDER_GROUPS="kind kubectl registry helm"
# shellcheck disable=SC2153
KIND_NAME=kindling-$NAME
KIND_NODE=$KIND_NAME-control-plane # kind's name for the container of the only node

provider_prerequisites() {
  need_space "$CACHE" 5
  docker_answers || die "the kind provider needs Docker and its daemon does not answer: start it, or use --provider bare"
  node_image_available || die "the node image $KIND_NODE_IMAGE is not here and cannot be pulled: load it into Docker, or use --provider bare"
}

provider_up() {
  provider_alive || {
    provider_down
    # shellcheck disable=SC2086 # a list of words
    link_programs $PROVIDER_GROUPS
    write_kind_config
    "$STATE/bin/kind" create cluster --name "$KIND_NAME" --image "$KIND_NODE_IMAGE" --config "$STATE/kind.yaml" \
      --kubeconfig "$STATE/kubeconfig" --wait 5m >&2
  }
  start_in_node registry registry "$(group_dir registry)/registry" serve /etc/kindling/registry.yaml
  wait_for 90 "the registry" curl -fsS "http://127.0.0.1:$REGISTRY_PORT/v2/"
  # The address of the API server as the node itself sees it: the certificate is valid for it.
  sed 's#server: .*#server: https://127.0.0.1:6443#' "$STATE/kubeconfig" > "$STATE/inner.kubeconfig"
  chmod 600 "$STATE/inner.kubeconfig"
}

write_kind_config() {
  mkdir -p "$STATE/etc/certs.d/localhost:$REGISTRY_PORT" "$STATE"/var/lib/{registry,kindling/volumes} "$STATE/var/log/onenode"
  local config=$HERE/provider/bare/config
  fill_in < "$config/audit.yaml" > "$STATE/etc/audit.yaml"
  fill_in < "$config/hosts.toml" > "$STATE/etc/certs.d/localhost:$REGISTRY_PORT/hosts.toml"
  fill_in < "$config/registry.yaml" | sed 's/127.0.0.1:/0.0.0.0:/' > "$STATE/etc/registry.yaml" # Docker's port mapping enters by the node's address
  fill_in < "$KIND/config.yaml" > "$STATE/kind.yaml"
}

fill_in() { sed -e "s#__STATE__#$STATE#g; s#__API_PORT__#$API_PORT#g; s#__REGISTRY_PORT__#$REGISTRY_PORT#g"; }

provider_down() {
  if docker_answers && docker inspect "$KIND_NODE" >/dev/null 2>&1; then
    "$(group_dir kind)/kind" delete cluster --name "$KIND_NAME" --kubeconfig "$STATE/kubeconfig" >&2
  fi
  # shellcheck disable=SC2115 # STATE is never empty: use_state made it
  rm -rf "$STATE"/{bin,kubeconfig,inner.kubeconfig,loaded} "$STATE/var/lib/kindling"
}

provider_alive() { [ "$(docker inspect --format '{{.State.Running}}' "$KIND_NODE" 2>/dev/null)" = true ]; }

provider_exec() {
  local pid
  pid=$(docker inspect --format '{{.State.Pid}}' "$KIND_NODE")
  KUBECONFIG=$STATE/inner.kubeconfig PATH=$STATE/bin:$PATH exec nsenter --target "$pid" --net "$@"
}

provider_node() { exec docker exec -i "$KIND_NODE" "$@"; }

provider_load() { "$STATE/bin/kind" load image-archive "$1" --name "$KIND_NAME" >&2; }

provider_env() { :; } # crictl is inside the node: cluster node -- crictl ps

provider_volumes() { echo "$STATE/var/lib/kindling/volumes"; }

# start_in_node NAME FILE ARGUMENT...: a static program of this machine as a process of the node, kept running.
start_in_node() {
  local name=$1 program=$2 source=$3
  shift 3
  docker cp "$source" "$KIND_NODE:/usr/local/bin/$program" >/dev/null
  docker exec "$KIND_NODE" systemctl is-active --quiet "kindling-$name" ||
    docker exec "$KIND_NODE" systemd-run --quiet --unit "kindling-$name" --property Restart=always --property RestartSec=0.5 \
      --setenv OTEL_TRACES_EXPORTER=none "/usr/local/bin/$program" "$@"
}

provider_service() { [ "$1" = netpol ] || die "the kind provider has no service '$1'"; } # kind's own network enforces NetworkPolicy

provider_kwok() {
  docker cp "$1" "$KIND_NODE:/kwok-stages.yaml" >/dev/null
  start_in_node kwok kwok "$(group_dir kwok)/kwok" --config=/kwok-stages.yaml --kubeconfig=/etc/kubernetes/admin.conf --manage-all-nodes=false \
    --manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake --cidr=10.245.0.0/16 --node-lease-duration-seconds=40
}

provider_fakegpu() { start_in_node fakegpu fakegpu "$(group_dir fakegpu)/fakegpu" --count "$1"; }

provider_status() { docker exec "$KIND_NODE" crictl ps --output table | sed 's/^/  /'; }

provider_logs() { "$STATE/bin/kind" export logs "$1/kind" --name "$KIND_NAME"; }

still_possible() { provider_alive || die "the container $KIND_NODE ended: see docker logs $KIND_NODE"; }
