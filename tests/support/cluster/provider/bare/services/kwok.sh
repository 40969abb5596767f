# Every Node object annotated kwok.x-k8s.io/node=fake turns Ready, and so do the pods on it.
# shellcheck shell=bash disable=SC2154
exec kwok --config=/var/lib/onenode/kwok-stages.yaml --kubeconfig="$pki/admin.kubeconfig" --manage-all-nodes=false \
  --manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake --node-ip="$NODE_IP" --cidr=10.245.0.0/16 --node-lease-duration-seconds=40
