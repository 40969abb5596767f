# The bare provider: the real control plane, kubelet and containerd as one process tree in namespaces of its own.
# Every provider has the functions provider_* of this file; the rest of the scripts knows no others.
# shellcheck shell=bash source-path=SCRIPTDIR

BARE=$HERE/provider/bare
. "$BARE/names.sh"
. "$BARE/machine.sh"
. "$BARE/cgroups.sh"
. "$BARE/network.sh"
. "$BARE/pki.sh"
. "$BARE/up.sh"
. "$BARE/down.sh"
. "$BARE/faults.sh"

# shellcheck disable=SC2034
PROVIDER_GROUPS="core registry helm"

provider_prerequisites() { check_machine; }
provider_up() { bare_up; }
provider_down() { bare_down; }

# Alive = the recorded process still is the one that was recorded (a pid alone may have been given away again).
provider_alive() {
  local pid start
  [ -s "$STATE/pid" ] && read -r pid start < "$STATE/pid" || return 1
  [ "$(start_time "$pid")" = "$start" ]
}

# start_time PID: nothing for a process that has ended, also where nobody has asked for its exit code yet.
start_time() { awk '$3 !~ /[ZX]/ {print $22}' "/proc/$1/stat" 2>/dev/null; }

# The launcher's only child is the first process of the node's pid namespace.
node_init() {
  local launcher children
  read -r launcher _ < "$STATE/pid"
  read -r children < "/proc/$launcher/task/$launcher/children" || true
  [ -n "$children" ] || die "the node of cluster $NAME is just starting or ending: try again"
  echo "${children%% *}"
}

provider_exec() {
  KUBECONFIG=$ETC/pki/admin.kubeconfig PATH=$STATE/bin:$PATH exec nsenter --net="/run/netns/$NET" "$@"
}

provider_node() {
  local init
  init=$(node_init)
  exec nsenter --target "$init" --net --pid --mount --uts --ipc \
    env PATH="$STATE/bin:/usr/sbin:/usr/bin:/sbin:/bin" CONTAINER_RUNTIME_ENDPOINT=unix:///run/containerd/containerd.sock "$@"
}

provider_load() { ctr -a "$CONTAINERD" -n k8s.io images import "$1" >/dev/null; }

provider_env() { printf 'export CONTAINER_RUNTIME_ENDPOINT=%q\n' "unix://$CONTAINERD"; }

# Where a folder of this machine must be so that it is /var/lib/kindling/volumes inside the node.
provider_volumes() { echo "$STATE/var/lib/kindling/volumes"; }

# provider_service UNIT: one more program in the node, from a file of services/.
provider_service() {
  rm -f "$STATE/run/onenode/$1.hold" # whoever asks for it wants it to run
  cp "$BARE/services/$1.sh" "$ETC/services/.$1.new"
  mv "$ETC/services/.$1.new" "$ETC/services/$1.sh"
  wait_for 90 "$1 to start" component_pid "$1"
}

provider_kwok() {
  cp "$1" "$ETC/kwok-stages.yaml"
  provider_service kwok
}

provider_fakegpu() {
  local old
  old=$(cat "$ETC/fake-gpus" 2>/dev/null) || true
  echo "$1" > "$ETC/fake-gpus"
  provider_service fakegpu
  [ "$old" = "$1" ] || provider_kill fakegpu # started again with the new number
}

provider_status() {
  local unit component
  for unit in "$ETC"/services/*.sh; do
    component=$(basename -s .sh "$unit")
    if [ -e "$STATE/run/onenode/$component.hold" ]; then echo "  $component: held down"
    elif component_pid "$component" >/dev/null; then echo "  $component: runs"
    else echo "  $component: restarting"; fi
  done
}

provider_logs() {
  cp -r "$STATE/var/log/onenode" "$1/components"
  cp -r "$STATE/var/log/pods" "$1/pods"
  cp "$STATE/node.log" "$1/node.log"
}

still_possible() { provider_alive || die "the node died: see $STATE/node.log and $STATE/var/log/onenode/"; }
