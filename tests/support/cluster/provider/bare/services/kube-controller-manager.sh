# shellcheck shell=bash
# shellcheck disable=SC2086,SC2154 # CONTROLLER_MANAGER_ARGS is a list of arguments; pki comes from node.sh
wait_for_api
# at the default 20 requests per second the controllers take 4 s to get their tokens before the first of them starts
exec kube-controller-manager --kubeconfig="$pki/controller-manager.kubeconfig" \
  --authentication-kubeconfig="$pki/controller-manager.kubeconfig" --authorization-kubeconfig="$pki/controller-manager.kubeconfig" \
  --root-ca-file="$pki/ca.crt" --cluster-signing-cert-file="$pki/ca.crt" --cluster-signing-key-file="$pki/ca.key" \
  --service-account-private-key-file="$pki/sa.key" --use-service-account-credentials \
  --bind-address=127.0.0.1 --leader-elect=false --profiling=false --kube-api-qps=200 --kube-api-burst=400 ${CONTROLLER_MANAGER_ARGS:-}
