"""From manifests to the cluster: apply what differs, delete what is left over."""
