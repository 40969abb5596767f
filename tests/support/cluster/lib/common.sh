# Names, paths, messages and waiting. Sourced by `cluster`.
# shellcheck shell=bash

CACHE=${KINDLING_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kindling}
STARTED=${EPOCHREALTIME/./}

die() { echo "cluster: $*" >&2; exit 1; }

# say TEXT: a line of progress with the time since this command began. Always to stderr: stdout is for answers.
say() {
  local ms=$(((${EPOCHREALTIME/./} - STARTED) / 1000))
  printf 'cluster: %4d.%d s  %s\n' $((ms / 1000)) $((ms % 1000 / 100)) "$*" >&2
}

# use_state NAME PROVIDER: sets NAME, STATE and the wanted provider; loads the recorded one if there is one.
use_state() {
  NAME=$1 WANTED_PROVIDER=$2 PROVIDER=
  [[ $NAME =~ ^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$ ]] || die "the name '$NAME' must be 1 to 20 of a-z, 0-9 and '-'"
  case $WANTED_PROVIDER in auto | bare | kind) ;; *) die "the provider '$WANTED_PROVIDER' must be auto, bare or kind" ;; esac
  [[ $CACHE = /* ]] || die "the cache folder '$CACHE' must be an absolute path: set KINDLING_CACHE"
  STATE=$CACHE/cluster/$NAME
  [ ! -s "$STATE/provider" ] || load_provider "$(cat "$STATE/provider")"
}

# check_state_path: before anything is made there.
check_state_path() {
  case $STATE/ in
    /run/* | /var/run/* | /var/lib/* | /var/log/*)
      die "the cache folder $CACHE may not be under /run, /var/lib or /var/log: set KINDLING_CACHE to another path" ;;
  esac
  # the longest socket below it is run/containerd/containerd.sock.ttrpc; the kernel takes 107 characters
  local over=$((${#STATE} + 37 - 107))
  [ $over -le 0 ] || die "the path $STATE is $over characters too long for unix sockets: set KINDLING_CACHE to a shorter path"
}

load_provider() {
  PROVIDER=$1
  # shellcheck source=/dev/null
  . "$HERE/provider/$PROVIDER/provider.sh"
}

need_up() {
  if [ -n "$PROVIDER" ] && provider_alive; then return; fi
  die "cluster $NAME is not up: run $HERE/cluster --name $NAME up"
}

# lock FILE WHAT: hold FILE's lock on file descriptor 9 until this process ends.
lock() {
  mkdir -p "$(dirname "$1")"
  exec 9>>"$1"
  flock -n 9 || { say "waiting for another $2 to finish"; flock -w 3600 9 || die "another $2 has held $1 for an hour: end it first"; }
}

# wait_for SECONDS WHAT COMMAND...: until COMMAND succeeds; `still_possible` (a function) may give up earlier.
wait_for() {
  local end=$((SECONDS + $1)) seconds=$1 what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    still_possible
    [ $SECONDS -lt $end ] || die "waited $seconds s in vain for $what: see $STATE/var/log/onenode/"
    sleep 0.2
  done
}

# The python that runs the relay: the distribution's own where it is new enough, since a version manager's shim is slow to start.
find_python() {
  local p
  for p in /usr/bin/python3 python3; do
    "$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v "$p"; return; }
  done
  die "no Python 3.11 or newer is installed: install the package python3"
}

# free_port: a port of 127.0.0.1 that nobody listens on, below the range that outgoing connections take theirs from.
free_port() {
  local port _
  for _ in $(seq 200); do
    port=$((20000 + RANDOM % 12000))
    if ! (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then echo $port; return; fi
  done
  die "found no free port between 20000 and 32000 in 200 tries"
}

# The ports on 127.0.0.1 belong to the cluster for good: image names and kubeconfigs contain them.
use_ports() {
  if [ ! -s "$STATE/ports" ]; then
    local api registry
    api=$(free_port)
    registry=$(free_port)
    while [ "$api" = "$registry" ]; do registry=$(free_port); done
    printf 'API_PORT=%s\nREGISTRY_PORT=%s\n' "$api" "$registry" > "$STATE/ports"
  fi
  # shellcheck source=/dev/null
  . "$STATE/ports"
}
