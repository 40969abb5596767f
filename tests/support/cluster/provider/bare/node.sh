#!/bin/bash
# First process of the node, in its own pid, mount, host name, IPC and network namespaces: when it dies everything here dies.
# node.sh STATE: shows STATE's folders at the standard places, then keeps a program running for each file of services/.
set -eu
STATE=$1
# shellcheck source=/dev/null
. "$STATE/var/lib/onenode/env"
mount --make-rshared / # the kubelet's mount propagation
for d in var/lib var/log run; do mount --rbind "$STATE/$d" "/$d"; done # /etc, /usr, /dev and /sys stay this machine's
cd /
hostname "$NODE"
export PATH=$STATE/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
unset KUBECONFIG
etc=/var/lib/onenode log=/var/log/onenode run=/run/onenode
export pki=$etc/pki
mkdir -p $run /run/cni-ipam /var/log/pods /var/lib/kubelet

wait_for_api() {
  until curl -fsS -o /dev/null --cacert "$pki/ca.crt" "https://$NODE_IP:6443/readyz" 2>/dev/null; do sleep 0.2; done
}

# keep NAME: start services/NAME.sh again whenever it ends, but not while NAME.hold is there.
keep() {
  local name=$1 rc
  [ "$name" = relay ] || exec 5>&- 6>&- # the listening sockets of the machine's side are the relay's alone
  while :; do
    while [ -e "$run/$name.hold" ]; do sleep 0.2; done
    # shellcheck source=/dev/null
    (. "$etc/services/$name.sh") >> "$log/$name.log" 2>&1 &
    echo $! > "$run/$name.pid"
    wait $! && rc=0 || rc=$?
    rm -f "$run/$name.pid"
    echo "--- $name ended with $rc" >> "$log/$name.log"
    sleep 0.5
  done
}

declare -A kept=()
exec {ticks}<> <(:) # a pipe that nobody writes to: reading it with a timeout waits without a process
while :; do
  for file in "$etc"/services/*.sh; do
    name=${file##*/} name=${name%.sh}
    [ -z "${kept[$name]:-}" ] || continue
    kept[$name]=1
    keep "$name" &
  done
  read -rt 0.5 -u "$ticks" _ || true # bash reaps orphans whenever one ends
done
