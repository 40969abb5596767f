# shellcheck shell=bash disable=SC2154
wait_for_api
exec kube-scheduler --kubeconfig="$pki/scheduler.kubeconfig" --authentication-kubeconfig="$pki/scheduler.kubeconfig" \
  --authorization-kubeconfig="$pki/scheduler.kubeconfig" --bind-address=127.0.0.1 --leader-elect=false --profiling=false
