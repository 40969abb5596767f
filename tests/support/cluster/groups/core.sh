# Kubernetes, etcd and kubectl as one program, CoreDNS and pause as images, crictl.
# shellcheck shell=bash disable=SC2034
module=core
packages=(./cmd/onenode ./cmd/coredns ./cmd/pause sigs.k8s.io/cri-tools/cmd/crictl)
sources=(cmd/onenode cmd/coredns cmd/pause)
usually="6 minutes"
finish() {
  local n
  for n in etcd kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl; do ln -s onenode "$n"; done
  mkdir images
  "$HERE/mkimage.py" images/pause.tar localhost/pause:1 pause
  "$HERE/mkimage.py" images/coredns.tar localhost/coredns:1 coredns -conf /etc/coredns/Corefile
  rm pause coredns
}
