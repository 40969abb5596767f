# shellcheck shell=bash
exec "$PYTHON" /var/lib/onenode/relay.py serve "5=$NODE_IP:6443" "6=127.0.0.1:$REGISTRY_PORT"
