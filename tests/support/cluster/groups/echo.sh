# The smallest useful pod: an HTTP server and client in one static program, as an image.
# shellcheck shell=bash disable=SC2034
module=core
packages=(./cmd/echo)
sources=(cmd/echo)
usually="5 seconds"
finish() {
  mkdir images
  "$HERE/mkimage.py" images/echo.tar localhost/echo:1 echo serve
  rm echo
}
