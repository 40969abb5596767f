# helm 3, for the tests of the chart: it needs older dependencies than helm 4.
# shellcheck shell=bash disable=SC2034
module=helm3
packages=(helm.sh/helm/v3/cmd/helm)
usually="1 minute"
finish() { mv helm helm3; }
