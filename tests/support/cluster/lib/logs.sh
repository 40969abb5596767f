# Everything that helps to understand a failed test, in one folder.
# shellcheck shell=bash

# command_logs DIR: never fails by itself, since it runs when something else already has.
command_logs() {
  [ $# = 1 ] || die "logs needs a folder: cluster logs DIR"
  mkdir -p "$1" || die "cannot make the folder '$1' for the logs: name one that can be written"
  local dir
  dir=$(realpath "$1")
  [ -n "$PROVIDER" ] || { echo "cluster $NAME does not exist" > "$dir/status.txt"; return; }
  (command_status) > "$dir/status.txt" 2>&1 || true
  (provider_logs "$dir") > "$dir/collect.txt" 2>&1 || true
  if provider_alive; then
    ask get nodes,all,configmaps,controllerrevisions,endpointslices,persistentvolumeclaims,persistentvolumes,leases,events -A -o yaml > "$dir/objects.yaml" || true
    ask get inferencemodels -A -o yaml > "$dir/inferencemodels.yaml" || true # a call of its own: the kind may not exist
    ask get events -A --sort-by=.lastTimestamp > "$dir/events.txt" || true
    ask describe nodes,pods,deployments,services -A > "$dir/describe.txt" || true
    ask describe inferencemodels -A > "$dir/describe-inferencemodels.txt" || true
  fi
  echo "cluster $NAME: logs are in $dir"
}

# With a short deadline: the API server may be the very thing that is broken.
ask() { (provider_exec timeout 30 kubectl --request-timeout=10s "$@") 2>&1; }
