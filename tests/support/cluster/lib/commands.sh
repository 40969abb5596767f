# The commands that every provider shares.
# shellcheck shell=bash

command_up() {
  [ $# = 0 ] || die "up takes no arguments"
  if [ -n "$PROVIDER" ] && provider_alive && [ -e "$STATE/ready" ]; then
    provider_release_all
    programs_changed || say "cluster $NAME is up already"
    return
  fi
  check_state_path
  [ -n "$PROVIDER" ] || choose_provider
  provider_prerequisites
  # shellcheck disable=SC2086 # a list of words
  build_groups $PROVIDER_GROUPS ${FAKE_GPUS:+fakegpu}
  mkdir -p "$STATE"
  lock "$STATE/lock" "up or down of cluster $NAME"
  echo "$PROVIDER" > "$STATE/provider"
  use_ports
  # shellcheck disable=SC2086
  program_dirs $PROVIDER_GROUPS > "$STATE/programs"
  provider_up
  touch "$STATE/ready"
  say "cluster $NAME is up: eval \"\$($HERE/cluster --name $NAME env)\" makes kubectl and helm use it"
}

# programs_changed: says so where a running cluster has other programs than this checkout builds.
programs_changed() {
  # shellcheck disable=SC2086 # a list of words
  [ "$(program_dirs $PROVIDER_GROUPS)" != "$(cat "$STATE/programs" 2>/dev/null)" ] || return 1
  say "cluster $NAME is up with the programs of another version of these scripts: down, then up, takes the current ones"
}

program_dirs() { local g; for g in "$@"; do group_dir "$g"; done; }

command_down() {
  case "${1:-}" in '' | --purge) ;; *) die "down takes --purge or nothing, not '$1'" ;; esac
  [ -d "$STATE" ] || { say "cluster $NAME does not exist"; return; }
  lock "$STATE/lock" "up or down of cluster $NAME"
  rm -f "$STATE/ready"
  [ -z "$PROVIDER" ] || provider_down
  [ -z "${1:-}" ] || rm -rf "$STATE"
  say "cluster $NAME is down"
}

command_status() {
  if [ -z "$PROVIDER" ] || ! provider_alive; then
    echo "cluster $NAME: not up"
    exit 3
  fi
  use_ports
  local word=starting
  [ ! -e "$STATE/ready" ] || word=up
  echo "cluster $NAME: $word ($PROVIDER), API server https://127.0.0.1:$API_PORT, registry localhost:$REGISTRY_PORT, state $STATE"
  provider_status
  [ $word = up ] || exit 3
}

command_env() {
  need_up
  use_ports
  # shellcheck disable=SC2016 # the caller's shell expands PATH
  printf 'export KUBECONFIG=%q\nexport PATH=%q:"$PATH"\nexport KINDLING_REGISTRY=%q\n' "$STATE/kubeconfig" "$STATE/bin" "localhost:$REGISTRY_PORT"
  provider_env
}

command_exec() {
  [ "${1:-}" != -- ] || shift
  [ $# -gt 0 ] || die "exec needs a command: cluster exec -- kubectl get pods -A"
  need_up
  provider_exec "$@"
}

command_node() {
  [ "${1:-}" != -- ] || shift
  [ $# -gt 0 ] || die "node needs a command: cluster node -- crictl ps"
  need_up
  provider_node "$@"
}

command_load() {
  [ $# -gt 0 ] || die "load needs at least one archive: cluster load image.tar"
  need_up
  local file
  for file in "$@"; do
    [ -f "$file" ] || die "there is no file '$file' to load"
    provider_load "$file"
  done
}

command_hold() { fault hold "$@"; }
command_release() { fault release "$@"; }
command_kill() { fault kill "$@"; }

fault() {
  [ $# = 2 ] || die "$1 needs one component, such as kube-apiserver"
  need_up
  "provider_$1" "$2"
}

command_relay() {
  [ "$*" = cut ] || die "relay knows one word: cluster relay cut"
  need_up
  provider_cut
}
