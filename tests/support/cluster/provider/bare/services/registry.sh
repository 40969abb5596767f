# shellcheck shell=bash
export OTEL_TRACES_EXPORTER=none # its default sends traces to a collector that is not there
exec registry serve /var/lib/onenode/registry.yaml
