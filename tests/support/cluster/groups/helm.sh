# helm 4.
# shellcheck shell=bash disable=SC2034
module=core
packages=(helm.sh/helm/v4/cmd/helm)
usually="30 seconds beside core"
