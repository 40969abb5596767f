# Parts that only some tests need. Each is built when first asked for; asking again does nothing.
# shellcheck shell=bash

command_addon() {
  [ $# -gt 0 ] || die "addon needs a name: echo, fakegpu, kwok, lws or netpol"
  case $1 in
    echo | kwok | lws | netpol | fakegpu) ;;
    *) die "there is no addon '$1': it must be echo, fakegpu, kwok, lws or netpol" ;;
  esac
  need_up
  "addon_$1" "${@:2}"
  say "addon $1 is there"
}

# The smallest useful pod: image localhost/echo:1.
addon_echo() {
  build_groups echo
  load_once "$(group_dir echo)/images/echo.tar"
}

addon_fakegpu() {
  build_groups fakegpu
  link_programs fakegpu
  provider_fakegpu "${1:-8}"
}

addon_kwok() {
  build_groups kwok
  link_programs kwok
  provider_kwok "$(group_dir kwok)/stages.yaml"
}

addon_netpol() {
  build_groups netpol
  link_programs netpol
  provider_service netpol
}

# The chart of the module itself, with requests that fit a small machine. It makes its own webhook certificate.
addon_lws() {
  lws_ready && return
  build_groups lws helm
  load_once "$(group_dir lws)/images/lws.tar"
  (provider_exec helm uninstall lws --namespace lws-system --ignore-not-found --wait) >&2 # what an earlier failure left
  (provider_exec helm install lws "$(group_dir lws)/chart" --namespace lws-system --create-namespace \
    --set image.manager.repository=localhost/lws --set image.manager.tag=1 --set image.manager.pullPolicy=Never \
    --set-string nodeSelector.onenode/real=true --set resources.requests.cpu=50m --set resources.requests.memory=64Mi \
    --wait --timeout 3m) >&2 || die "LeaderWorkerSet did not start within 3 minutes: cluster --name $NAME exec -- kubectl -n lws-system describe pods"
}

lws_ready() { (provider_exec kubectl -n lws-system rollout status deploy/lws-controller-manager --timeout=1s) >/dev/null 2>&1; }

# load_once FILE: the node keeps its images over down and up, so a mark for each file is enough.
load_once() {
  local mark
  mark=$STATE/loaded/$(stat -c '%n %s %Y' "$(realpath "$1")" | cksum | cut -d' ' -f1)
  mkdir -p "$STATE/loaded"
  [ -e "$mark" ] || { provider_load "$1" && touch "$mark"; }
}
