# shellcheck shell=bash
# Which torch the CPU image gets. The official CPU build is a sixth of the size of the one that the
# default index serves, but lies on an index of the PyTorch project that not every network reaches.
#   KINDLING_TORCH_INDEX   URL of an index with the CPU build; empty: never look for one.
: "${root:?}" "${CACHE:?}"

PYTORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu
OFFICIAL_TORCH=torch==2.13.0+cpu

# torch_index : URL of the index to use, or nothing. Probed once for each URL; the answer is kept.
torch_index() {
  local url=${KINDLING_TORCH_INDEX-$PYTORCH_CPU_INDEX} kept
  [ -n "$url" ] || return 0
  kept=$CACHE/images/torch-index-$(printf '%s' "$url" | sha256sum | cut -c1-12)
  if [ ! -e "$kept" ]; then
    mkdir -p "$CACHE/images"
    if curl --fail --silent --location --max-time 5 --output /dev/null "$url/torch/"; then
      printf '%s\n' "$url" >"$kept"
    else
      say "the index of official CPU builds of torch is not reached: using the default index's torch (remove $kept to ask again)"
      : >"$kept"
    fi
  fi
  cat "$kept"
}

# official_torch_folder : a lock folder with the official build in place of torch.lock, made if needed.
# Its hash is what that index serves now: it cannot be in the repository, see docs/images.md.
official_torch_folder() {
  local folder=$CACHE/images/official-torch wheel
  if [ ! -e "$folder/torch.lock" ]; then
    mkdir -p "$folder" "$CACHE/wheels"
    say "fetching $OFFICIAL_TORCH, about 200 MB"
    "$(find_uv)" tool run --quiet --no-config --python "$root/.venv/bin/python" --from "$PIP" pip download --disable-pip-version-check --quiet \
      --no-deps --only-binary :all: --python-version 3.11 --index-url "$(torch_index)" --dest "$folder" "$OFFICIAL_TORCH" >&2 ||
      die "$OFFICIAL_TORCH could not be fetched from $(torch_index): set KINDLING_TORCH_INDEX= to do without it"
    wheel=$(echo "$folder"/torch-*.whl)
    printf '%s --hash=sha256:%s\n' "$OFFICIAL_TORCH" "$(sha256sum <"$wheel" | cut -d' ' -f1)" >"$folder/torch.lock.new"
    mv "$wheel" "$CACHE/wheels/"
    mv "$folder/torch.lock.new" "$folder/torch.lock"
  fi
  cp "$root/images/runtime-cpu/requirements.lock" "$folder/"
  printf '%s\n' "$folder"
}
