# Builds the programs from pinned Go modules into the cache, each group once for each content of its sources.
# A group is a file groups/NAME.sh: module, packages, sources, usually (a time), finish (a function, in the group's folder).
# shellcheck shell=bash

# Most of what a build leaves is Go's compile cache: 5.5 GiB measured for all groups. What is in it already need not be free.
COMPILE_CACHE_GIB=6

load_group() {
  local file=$HERE/groups/$1.sh
  [ -f "$file" ] || die "there is no group '$1': it must be one of $(basename -s .sh "$HERE"/groups/*.sh | xargs)"
  module='' packages=() sources=() usually=''
  finish() { :; }
  # shellcheck source=/dev/null
  . "$file"
}

# group_dir GROUP: where its programs are, or will be. The name holds a hash of everything that goes into them.
group_dir() (
  load_group "$1"
  cd "$HERE" || exit 1
  hash=$({
    cat "modules/$module/go.mod" "modules/$module/go.sum" mkimage.py
    declare -p module packages sources
    declare -f finish go_build
    for s in "${sources[@]}"; do find "modules/$module/$s" -type f -name '*.go' | LC_ALL=C sort | xargs cat; done
  } | sha256sum)
  echo "$CACHE/bin/$1-${hash:0:12}"
)

command_build() {
  [ $# -gt 0 ] || die "build needs at least one group: $(basename -s .sh "$HERE"/groups/*.sh | xargs)"
  build_groups "$@"
  program_dirs "$@"
}

# command_missing GROUP...: the folders of those that a build would have to make.
command_missing() {
  local dir
  for dir in $(program_dirs "$@"); do [ -d "$dir" ] || echo "$dir"; done
}

command_paths() {
  local path
  path=$(command_build "$@" | paste -sd:)
  # shellcheck disable=SC2016 # the caller's shell expands PATH
  printf 'export PATH=%q:"$PATH"\n' "$path"
}

# build_groups GROUP...: those of the same module in one go command, so that what they share is compiled once.
build_groups() {
  local -A of_module=()
  local g dir
  for g in "$@"; do
    dir=$(group_dir "$g") || exit 1
    [ -d "$dir" ] || { load_group "$g"; of_module[$module]+=" $g"; }
  done
  local m
  for m in "${!of_module[@]}"; do
    # shellcheck disable=SC2086 # a list of words
    (build_module "$m" ${of_module[$m]}) || exit 1
  done
}

# build_module MODULE GROUP...: in a subshell, since it takes the lock and leaves it by ending.
build_module() {
  module=$1
  shift
  lock "$CACHE/bin/.lock" build
  local g wanted=() all=() tmp=$CACHE/bin/.new
  for g in "$@"; do [ -d "$(group_dir "$g")" ] || wanted+=("$g"); done # another process may have built it meanwhile
  [ ${#wanted[@]} -gt 0 ] || return 0
  ensure_programs python3=python3 /etc/ssl/certs/ca-certificates.crt=ca-certificates
  find_go "$(sed -n 's/^go //p' "$HERE/modules/$module/go.mod")"
  need_space "$CACHE/bin" 2
  need_space "$("$GO" env GOCACHE)" "$(space_to_compile)"
  rm -rf "$tmp"
  mkdir -p "$tmp/all"
  for g in "${wanted[@]}"; do
    load_group "$g"
    all+=("${packages[@]}")
    say "building $g; from nothing, on 2 idle cores, it takes about $usually"
  done
  compile "$module" "$tmp/all" "$CACHE/bin/$module.log" "${all[@]}"
  for g in "${wanted[@]}"; do install_group "$g" "$tmp"; done
  rm -rf "$tmp"
}

space_to_compile() {
  local cached
  cached=$(du -sm "$("$GO" env GOCACHE)" 2>/dev/null | cut -f1)
  echo $(((COMPILE_CACHE_GIB * 1024 - ${cached:-0} > 0 ? COMPILE_CACHE_GIB - ${cached:-0} / 1024 : 0) + 2))
}

# install_group GROUP TMP: its share of TMP/all, finished, to its final name in one rename.
install_group() {
  load_group "$1"
  local p out=$2/$1
  mkdir -p "$out"
  for p in "${packages[@]}"; do mv "$2/all/$(program_name "$p")" "$out/"; done
  (cd "$out" && finish)
  mv -T "$out" "$(group_dir "$1")"
  say "built $1"
}

program_name() { if [ "$1" = . ]; then echo "$module"; else basename "$1"; fi; }

# compile MODULE OUT LOG PACKAGE...: one go command, with a sign of life every 15 seconds.
compile() {
  local module=$1 out=$2 log=$3 pid rc=0
  shift 3
  go_build "$module" "$out" "$@" > "$log" 2>&1 &
  pid=$!
  trap 'kill "$pid" 2>/dev/null || true' EXIT
  while sleep 1 && kill -0 $pid 2>/dev/null; do
    [ $((SECONDS % 15)) != 0 ] ||
      say "$module: $(grep -c '^go: downloading' "$log" || true) modules fetched, $(grep -vc '^go:' "$log" || true) packages compiled"
  done
  wait $pid || rc=$?
  trap - EXIT
  [ $rc = 0 ] || { tail -n 20 "$log" >&2; die "building $module failed: its last lines are above, all of them in $log"; }
}

# The package cache is shared by all modules only without -trimpath: with it, a replaced version has a key of its own.
go_build() {
  cd "$HERE/modules/$1" || exit 1
  local version flags="-s -w" v=k8s.io/component-base/version
  version=$(sed -n 's#^\s*k8s.io/kubernetes \(v[0-9.]*\)$#\1#p' go.mod)
  if [ -n "$version" ]; then # without it, Kubernetes says that it is v0.0.0
    IFS=. read -r major minor _ <<< "${version#v}"
    flags+=" -X $v.gitVersion=$version -X $v.gitMajor=$major -X $v.gitMinor=$minor -X $v.gitTreeState=clean"
    flags+=" -X k8s.io/client-go/pkg/version.gitVersion=$version"
  fi
  CGO_ENABLED=0 GOFLAGS="-mod=readonly -buildvcs=false" GOTOOLCHAIN=local GOWORK=off exec nice "$GO" build -v \
    -ldflags "$flags" -o "$2/" "${@:3}"
}

# module_dir MODULE PATH: the folder of a dependency's source.
module_dir() { (cd "$HERE/modules/$1" && GOFLAGS=-mod=readonly GOTOOLCHAIN=local GOWORK=off "$GO" list -m -f '{{.Dir}}' "$2"); }

# link_programs GROUP...: the programs that this cluster's PATH offers. Links, so that a rebuilt group is taken at the next up.
link_programs() {
  local g f
  mkdir -p "$STATE/bin"
  for g in "$@"; do
    for f in "$(group_dir "$g")"/*; do
      [ ! -x "$f" ] || [ -d "$f" ] || ln -sfn "$f" "$STATE/bin/${f##*/}"
    done
  done
}
