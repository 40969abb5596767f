# The first packet of each connection of a pod goes to queue 100: between pods, and from pods to the node itself, so also to the API server.
# Without the program nothing is filtered (bypass); a policy then has no effect.
# shellcheck shell=bash disable=SC2154
for rule in FORWARD "INPUT -s $POD_CIDR"; do
  # shellcheck disable=SC2086 # a chain and perhaps a condition
  iptables -w -t mangle -C $rule -m conntrack --ctstate NEW -j NFQUEUE --queue-num 100 --queue-bypass 2>/dev/null ||
    iptables -w -t mangle -A $rule -m conntrack --ctstate NEW -j NFQUEUE --queue-num 100 --queue-bypass
done
exec netpol --kubeconfig="$pki/admin.kubeconfig" --node="$NODE"
