# A cgroup of our own in each hierarchy that this machine has (v1, v1 with v2 beside it, or v2 alone), so that teardown knows what is ours.
# shellcheck shell=bash

# find_cgroups: sets CGROUPS, the mount points of the hierarchies.
find_cgroups() {
  mapfile -t CGROUPS < <(awk '($3 == "cgroup" || $3 == "cgroup2") && $2 ~ "^/sys/fs/cgroup" {print $2}' /proc/self/mounts)
  [ ${#CGROUPS[@]} -gt 0 ] || die "no cgroup hierarchy is mounted below /sys/fs/cgroup: mount one (mount -t cgroup2 none /sys/fs/cgroup)"
  if ! unified; then
    local c
    for c in cpu cpuacct cpuset memory devices freezer blkio pids; do
      awk -v c=$c '$3 == "cgroup" && $4 ~ "(^|,)" c "(,|$)" {found = 1} END {exit !found}' /proc/self/mounts ||
        die "the cgroup controller $c is not mounted: mount it at /sys/fs/cgroup/$c, or boot with cgroup v2"
    done
  fi
}

unified() { [ "${CGROUPS[*]}" = /sys/fs/cgroup ]; }

# make_cgroups: the daemons go into $NET/daemons and the pods into $NET/kubepods, which the kubelet makes.
make_cgroups() {
  local c f
  for c in "${CGROUPS[@]}"; do
    mkdir -p "$c/$NET/daemons"
    if [ -e "$c/$NET/cpuset.cpus" ] && ! unified; then # v1: an empty cpuset takes no process
      for f in "$NET/cpuset.cpus" "$NET/cpuset.mems" "$NET/daemons/cpuset.cpus" "$NET/daemons/cpuset.mems"; do
        cat "$c/${f##*/}" > "$c/$f"
      done
    fi
  done
  if unified; then # v2: a group hands on only the controllers that it names
    for c in "/sys/fs/cgroup" "/sys/fs/cgroup/$NET"; do
      echo "+cpuset +cpu +io +memory +pids" > "$c/cgroup.subtree_control" ||
        die "cgroup v2: $c does not hand its controllers on: run this outside a container, or in one with a cgroup namespace whose root has no processes"
    done
  fi
}

enter_cgroups() {
  local c
  for c in "${CGROUPS[@]}"; do echo $BASHPID > "$c/$NET/daemons/cgroup.procs"; done
}

# remove_cgroups: deepest first; a process that is still dying holds its group for a moment.
remove_cgroups() {
  local c p root _
  for c in "${CGROUPS[@]}"; do
    root=$c/$NET
    for _ in $(seq 100); do
      [ -d "$root" ] || break
      find "$root" -depth -type d -exec rmdir {} + 2>/dev/null || true
      [ -d "$root" ] || break
      while read -r p; do kill -KILL "$p" 2>/dev/null || true; done < <(find "$root" -name cgroup.procs -exec cat {} + 2>/dev/null)
      sleep 0.1
    done
    [ ! -d "$root" ] || die "the cgroup $root is still in use after 10 s: end its processes and run this again"
  done
}
