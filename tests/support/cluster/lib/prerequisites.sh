# What this machine must have. Every check ends in one sentence that says what is missing and what to do.
# shellcheck shell=bash source-path=SCRIPTDIR/..

# need_space DIR GIB: DIR may not exist yet.
need_space() {
  local dir=$1 free
  while [ ! -d "$dir" ]; do dir=$(dirname "$dir"); done
  free=$(df --output=avail -k "$dir" | tail -1)
  [ "$free" -ge $(($2 * 1024 * 1024)) ] ||
    die "$dir has $((free / 1024 / 1024)) GiB free and $2 GiB are needed: free some, or set KINDLING_CACHE (and GOCACHE for builds) to another disk"
}

# install_packages PACKAGE...
install_packages() {
  command -v apt-get >/dev/null || die "these programs are missing and this is no Debian: install what it has in place of $*"
  [ "$(id -u)" = 0 ] || die "the packages $* are missing: run apt-get install $* as root"
  say "installing $* (usually 20 s)"
  local log=$CACHE/apt.log
  mkdir -p "$CACHE"
  # One at a time: clusters and images are prepared side by side, and apt-get does not wait.
  { flock 8 && apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; } \
    > "$log" 2>&1 < /dev/null 8>> "$CACHE/apt.lock" ||
    die "apt-get could not install $*: see $log"
}

# ensure_programs PROGRAM=PACKAGE...: installs the packages whose program (or file, by its path) is not there.
ensure_programs() {
  local pair missing=()
  for pair in "$@"; do
    command -v "${pair%%=*}" >/dev/null || [ -e "${pair%%=*}" ] || missing+=("${pair#*=}")
  done
  [ ${#missing[@]} = 0 ] || install_packages "${missing[@]}"
}

command_prerequisites() {
  check_state_path
  [ -n "$PROVIDER" ] || choose_provider
  provider_prerequisites
  say "this machine can run the $PROVIDER provider"
}

# choose_provider: kind where Docker runs and a node image is there or can be pulled, else bare.
choose_provider() {
  local provider=$WANTED_PROVIDER
  if [ "$provider" = auto ]; then
    provider=bare
    if docker_answers && . "$HERE/provider/kind/image.sh" && node_image_available; then provider=kind; fi
  fi
  load_provider "$provider"
}

docker_answers() { timeout 5 docker info >/dev/null 2>&1; }
