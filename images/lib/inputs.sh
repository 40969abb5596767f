# shellcheck shell=bash
# What an image is made from, and the tag that says so.
: "${root:?}" "${CACHE:?}"

# lock_folder IMAGE : the folder whose lock files the build takes
lock_folder() {
  if [ -n "${LOCK_FOLDER:-}" ]; then
    printf '%s\n' "$LOCK_FOLDER"
  elif [ "$1" = runtime-cpu ] && [ -n "$(torch_index)" ]; then
    official_torch_folder
  else
    printf '%s\n' "$root/images/$1"
  fi
}

# code_of IMAGE : the folders of our own code in it
code_of() {
  case $1 in
    operator) printf '%s\n' operator/kindling_operator runtime/kindling_runtime ;;
    runtime | runtime-cpu) printf '%s\n' runtime/kindling_runtime ;;
    *) die "there is no image '$1': use operator, runtime or runtime-cpu" ;;
  esac
}

version_of_project() { sed -n 's/^version = "\(.*\)"/\1/p' "$root/pyproject.toml"; }

# tag_of IMAGE BASE : a hash over everything that decides the image's content
tag_of() {
  local image=$1 base=$2 code
  mapfile -t code < <(code_of "$image")
  {
    printf '%s %s %s\n' "$image" "$base" "$(version_of_project)"
    cd "$root" || exit
    find "${code[@]}" "images/$image" images/steps .containerignore -type f -not -path '*/__pycache__/*' -print0 |
      LC_ALL=C sort -z | xargs -0 sha256sum
    cat "$(lock_folder "$image")"/*.lock
  } | sha256sum | cut -c1-16
}
