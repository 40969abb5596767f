# shellcheck shell=bash disable=SC2154
wait_for_api
exec kubelet --config=/var/lib/onenode/kubelet.yaml --kubeconfig="$pki/kubelet.kubeconfig" \
  --hostname-override="$NODE" --node-ip="$NODE_IP" --node-labels="onenode/real=true${NODE_LABELS:+,$NODE_LABELS}"
