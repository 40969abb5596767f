# kubectl alone, for clusters whose other programs come from somewhere else.
# shellcheck shell=bash disable=SC2034
module=core
packages=(k8s.io/kubernetes/cmd/kubectl)
usually="1 minute"
