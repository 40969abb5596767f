# Fake nodes. kwok does nothing by itself: its stages say what a node and a pod on it go through.
# shellcheck shell=bash disable=SC2034
module=core
packages=(sigs.k8s.io/kwok/cmd/kwok)
usually="20 seconds beside core"
finish() {
  local stages f
  stages=$(module_dir core sigs.k8s.io/kwok)/kustomize/stage
  for f in node/fast/node-initialize node/heartbeat-with-lease/node-heartbeat-with-lease \
    pod/fast/pod-ready pod/fast/pod-complete pod/fast/pod-delete; do
    echo ---
    cat "$stages/$f.yaml"
  done > stages.yaml
}
