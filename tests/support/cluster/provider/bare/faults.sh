# Faults on purpose. Each program of the node is kept running by the node's first process; a file NAME.hold keeps it down.
# shellcheck shell=bash

component_pid() { cat "$STATE/run/onenode/$1.pid" 2>/dev/null; } # as the node numbers it

need_component() {
  [ -e "$ETC/services/$1.sh" ] || die "there is no component '$1': it must be one of $(basename -s .sh "$ETC"/services/*.sh | xargs)"
}

# provider_kill COMPONENT: returns when that process is gone.
provider_kill() {
  need_component "$1"
  local pid
  pid=$(component_pid "$1") || return 0
  (provider_node kill -KILL "$pid") 2>/dev/null || true
  wait_for 10 "$1 to end" pid_changed "$1" "$pid"
}

pid_changed() { [ "$(component_pid "$1")" != "$2" ]; }

provider_hold() {
  need_component "$1"
  touch "$STATE/run/onenode/$1.hold"
  provider_kill "$1"
}

# provider_release COMPONENT: returns when it runs and the API server answers again, unless something else is still held down.
provider_release() {
  need_component "$1"
  rm -f "$STATE/run/onenode/$1.hold"
  wait_for 90 "$1 to start" component_pid "$1"
  if [ -z "$(held)" ]; then wait_for 120 "the API server" admin get --raw /readyz; fi
}

held() { find "$STATE/run/onenode" -name '*.hold' 2>/dev/null; }

# provider_release_all: a test that died may have left something held down.
provider_release_all() {
  [ -n "$(held)" ] || return 0
  rm -f "$STATE"/run/onenode/*.hold
  wait_for 120 "the API server" admin get --raw /readyz
}

# provider_cut: closes every connection through the relay; new ones are taken as before.
provider_cut() {
  local pid
  pid=$(component_pid relay) || die "the relay does not run: cluster release relay"
  (provider_node kill -USR1 "$pid")
}
