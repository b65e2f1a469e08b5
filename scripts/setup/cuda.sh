# nvcc for `make CUDA=1`: the system's own, or NVIDIA's wheels in the cache. Sourced by setup.sh.
# shellcheck shell=bash disable=SC2154

cuda_version=13.0
cuda_wheels=(nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-crt nvidia-nvvm nvidia-cuda-cccl)

cuda_root() { printf '%s/cuda/%s' "$cache" "$cuda_version"; }

setup_cuda() {
  [ -n "${CUDA:-}" ] || return 0
  if have nvcc || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then
    say cuda "the system's own nvcc"
    return 0
  fi
  local root wheels wheel
  root=$(cuda_root)
  if [ ! -e "$root/.complete" ]; then
    say cuda "downloading nvcc $cuda_version, 105 MB"
    wheels=$(mktemp -d)
    if ! logged "$venv/bin/python" -m pip download --no-deps -d "$wheels" \
      "${cuda_wheels[@]/%/==$cuda_version.*}"; then
      fault "nvcc could not be downloaded (see $log); install CUDA $cuda_version, then: make CUDA=1"
      return 0
    fi
    mkdir -p "$root"
    for wheel in "$wheels"/*.whl; do "$venv/bin/python" -m zipfile -e "$wheel" "$root"; done
    chmod +x "$root"/nvidia/cu13/bin/* "$root"/nvidia/cu13/nvvm/bin/*
    rm -rf "$wheels"
    touch "$root/.complete"
  fi
  say cuda "nvcc $cuda_version in ${root/#$HOME/\~}"
}
