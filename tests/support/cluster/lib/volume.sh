# A folder of this machine as a PersistentVolume of the cluster.
# shellcheck shell=bash

# command_volume NAME DIR: the copy replaces an earlier one as a whole, unless that is the same: a pod that has it mounted keeps its files.
command_volume() {
  [ $# = 2 ] || die "volume needs a name and a folder: cluster volume weights ./tiny-model"
  local name=$1 dir=$2 volumes
  [[ $name =~ ^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$ ]] || die "the volume name '$name' must be 1 to 63 of a-z, 0-9 and '-'"
  [ -d "$dir" ] || die "there is no folder '$dir' to make a volume of"
  need_up
  volumes=$(provider_volumes)
  mkdir -p "$volumes"
  rm -rf "$volumes/.$name.new"
  cp -rL --reflink=auto --no-preserve=mode,ownership "$dir" "$volumes/.$name.new"
  chmod -R a+rX "$volumes/.$name.new" # the pods' user 65532 is nobody on this machine
  if ! diff -rq "$volumes/.$name.new" "$volumes/$name" >/dev/null 2>&1; then
    rm -rf "$volumes/.$name.old"
    [ ! -e "$volumes/$name" ] || mv "$volumes/$name" "$volumes/.$name.old"
    mv "$volumes/.$name.new" "$volumes/$name"
  fi
  rm -rf "$volumes/.$name.old" "$volumes/.$name.new"
  volume_manifest "$name" "$(($(du -sm "$volumes/$name" | cut -f1) + 1))Mi" | (provider_exec kubectl apply -f -) >&2
}

volume_manifest() {
  cat <<M
apiVersion: v1
kind: PersistentVolume
metadata: {name: $1}
spec:
  capacity: {storage: $2}
  accessModes: [ReadOnlyMany, ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ""
  hostPath: {path: /var/lib/kindling/volumes/$1, type: Directory}
M
}
