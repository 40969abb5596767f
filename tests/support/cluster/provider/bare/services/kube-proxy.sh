# shellcheck shell=bash disable=SC2154
wait_for_api
# the conntrack sysctls are read-only in a network namespace that is not the machine's first: 0 leaves them alone
exec kube-proxy --kubeconfig="$pki/proxy.kubeconfig" --hostname-override="$NODE" --proxy-mode=iptables \
  --cluster-cidr="$POD_CIDR" --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0
