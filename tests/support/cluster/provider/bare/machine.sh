# Can this machine run the bare provider? Asked before anything is changed.
# shellcheck shell=bash

check_machine() {
  [ "$(uname -s)" = Linux ] || die "the bare provider needs Linux and this is $(uname -s): install Docker, so that kind is used"
  [ "$(id -u)" = 0 ] || die "the bare provider must be root to make namespaces and you are $(id -un): use sudo, or install Docker, so that kind is used"
  case $(uname -m) in x86_64 | aarch64) ;; *) die "the bare provider runs on x86_64 and aarch64 and this machine is $(uname -m)" ;; esac
  local memory
  memory=$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)
  [ "$memory" -ge $((3 * 1024 * 1024)) ] || die "the bare provider needs 3 GiB of memory and this machine has $((memory / 1024)) MiB: use a larger one"
  need_space "$CACHE" 3
  ensure_programs ip=iproute2 iptables=iptables nsenter=util-linux sysctl=procps conntrack=conntrack socat=socat openssl=openssl curl=curl \
    containerd=containerd runc=runc /usr/lib/cni/bridge=containernetworking-plugins /usr/sbin/modprobe=kmod python3=python3
  check_kernel
  find_cgroups
}

check_kernel() {
  grep -qw overlay /proc/filesystems || modprobe overlay 2>/dev/null || die "this kernel has no overlayfs: load the module overlay, or use a kernel that has it"
  local missing
  missing=$(try_network 2>/dev/null) || true
  [ "$missing" = none ] ||
    die "this kernel cannot do '${missing:-network namespaces}': load the module for it, or run this where the kernel has it (a virtual machine, not a restricted container)"
}

# try_network: uses each feature once, in a network namespace that vanishes with the command; prints the first that fails, or none.
try_network() {
  # shellcheck disable=SC2016 # the inner shell expands it
  unshare --net bash -c '
    need() { local what=$1; shift; "$@" >/dev/null 2>&1 || { echo "$what"; exit; }; }
    need "a bridge" ip link add b0 type bridge
    need "veth pairs" ip link add v0 type veth peer name v1
    need "iptables nat" iptables -w -t nat -A POSTROUTING -s 10.0.0.0/8 -m comment --comment test -j MASQUERADE
    need "iptables statistic" iptables -w -t nat -A OUTPUT -m statistic --mode random --probability 0.5 -j RETURN
    need "iptables conntrack" iptables -w -A FORWARD -m conntrack --ctstate NEW -j ACCEPT
    echo none'
}
