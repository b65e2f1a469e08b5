# System packages. Sourced by scripts/setup.sh.

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif have sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    sudo "$@"
  else
    return 1
  fi
}

absent_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      echo "$package"
  done
}

refresh_lists() {
  [ -n "${lists_fresh:-}" ] || logged as_root apt-get update -qq || true
  lists_fresh=1
}

apt_offers() {  # apt_offers PACKAGE
  have apt-cache || return 1
  apt-cache show "$1" >/dev/null 2>&1 && return
  refresh_lists
  apt-cache show "$1" >/dev/null 2>&1
}

apt_install() {  # apt_install PACKAGE…
  refresh_lists
  logged as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "$@"
}

# install_packages PACKAGE…: succeeds if all of them are installed afterwards, else records an error.
install_packages() {
  if ! have apt-get; then
    fault "this system has no apt-get. Install the equivalents of these Debian packages yourself:
      $*"
    return 1
  fi
  local absent
  mapfile -t absent < <(absent_packages "$@")
  [ ${#absent[@]} -gt 0 ] || return 0
  say apt "installing ${absent[*]}"
  as_root true 2>>"$log" || { fault "packages are missing, and setup is neither root nor can use sudo. Run:
      apt-get install -y ${absent[*]}"; return 1; }
  apt_install "${absent[@]}" || { fault "apt could not install packages (see $log). Run:
      apt-get install -y ${absent[*]}"; return 1; }
}

setup_packages() {
  local wanted=("${build_packages[@]}")
  [ "$phase" = inferlets ] && wanted=("${inferlet_packages[@]}")
  [ "$phase" = check ] && wanted+=("${check_packages[@]}")
  install_packages "${wanted[@]}" && say apt "${#wanted[@]} packages present"
}

# Tests of the published client make keys as its users do.
setup_keygen() {
  if [ "$phase" != test ] || have ssh-keygen; then return 0; fi
  say ssh-keygen "installing openssh-client"
  apt_install openssh-client || warn "some tests will fail without ssh-keygen. Run:
      apt-get install -y openssh-client"
}

has_browser() { have chromium || have chromium-browser || have google-chrome; }

setup_browser() {
  if [ "$phase" != test ] || has_browser; then return 0; fi
  say browser "installing chromium"
  if apt_offers chromium && apt_install chromium; then return 0; fi
  say browser "there is none: one test of the JavaScript client will be skipped"
}
