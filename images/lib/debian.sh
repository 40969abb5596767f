#!/usr/bin/env bash
# debian.sh TAR : the file system of a small Debian 12 with Python, for machines without a registry.
# The same packages as a slim Debian image of a registry, plus what the Containerfiles ask for.
set -euo pipefail
without=()
for path in doc man info locale lintian; do without+=(--dpkgopt="path-exclude=/usr/share/$path/*"); done
# shellcheck disable=SC2016 # mmdebstrap expands $1, the new root
exec mmdebstrap --variant=minbase --include=ca-certificates,libnuma1,python3.11 "${without[@]}" \
  --dpkgopt='path-include=/usr/share/doc/*/copyright' \
  --customize-hook='rm -rf "$1"/var/cache/apt/* "$1"/var/log/* "$1"/var/lib/apt/lists/*' \
  bookworm "$1"
