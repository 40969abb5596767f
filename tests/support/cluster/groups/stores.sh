# Object stores for the tests of downloads: an S3 gateway over a folder, and a server of GCS's API.
# shellcheck shell=bash disable=SC2034
module=stores
packages=(./cmd/s3 ./cmd/gcs)
sources=(cmd/s3 cmd/gcs)
usually="1 minute"
