# The LeaderWorkerSet controller as an image, and its chart: it needs an older controller-runtime than helm 4 brings.
# shellcheck shell=bash disable=SC2034
module=lws
packages=(sigs.k8s.io/lws/cmd)
usually="90 seconds"
finish() {
  mv cmd manager # the chart runs /manager
  mkdir images
  "$HERE/mkimage.py" images/lws.tar localhost/lws:1 manager
  rm manager
  cp -r "$(module_dir lws sigs.k8s.io/lws)/charts/lws" chart
  chmod -R u+w chart
}
