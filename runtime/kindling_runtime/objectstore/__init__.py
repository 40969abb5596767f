"""Object stores by the pod's own workload identity, for weights and for the KV cache."""
