# Python: bakery, its tools, and their launchers. Sourced by scripts/setup.sh.

find_python() {
  if ! have python3; then install_packages python3 python3-venv || return 1; fi
  python3 -c "import sys; sys.exit(sys.version_info < (${python_minimum/./, }))" ||
    { fault "$(python3 --version) is too old: $python_minimum is needed. Put a newer python3 first on PATH"
      return 1; }
  # Debian keeps the modules that venv needs in a package of their own.
  python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages python3-venv
}

venv_path() {
  local interpreter
  interpreter=$(python3 -c 'import sys; print(sys.version, sys.base_prefix)')
  echo "$cache/venv-$(printf '%s' "$interpreter" | cat bakery/requirements.txt - | short_hash)"
}

setup_venv() {
  find_python || return 0
  venv=$(venv_path)
  if [ ! -e "$venv/.complete" ]; then
    say python "installing $(grep -o '^[a-z0-9-]*==[^ ]*' bakery/requirements.txt | paste -sd' ')"
    rm -rf "$venv"
    if ! { logged python3 -m venv "$venv" &&
           logged "$venv/bin/python" -m pip install --disable-pip-version-check \
             -r bakery/requirements.txt; }; then
      fault "bakery's Python packages could not be installed (see $log). Run again:
      $again"
      return 0
    fi
    touch "$venv/.complete"
  fi
  local tests
  if [ "$phase" = test ] || [ "$phase" = check ]; then tests=$venv/.tests-$(short_hash <tests/requirements.txt); fi
  if [ -n "${tests:-}" ] && [ ! -e "$tests" ]; then
    say python "installing $(grep -o '^[a-z0-9-]*==[^ ]*' tests/requirements.txt | paste -sd' ')"
    logged "$venv/bin/python" -m pip install --disable-pip-version-check -r tests/requirements.txt &&
      touch "$tests" || warn "packages of the tests could not be installed (see $log)"
  fi
  say python "$("$venv/bin/python" -V | cut -d' ' -f2), $(grep -c '^[a-z]' bakery/requirements.txt) packages in ${venv/#$HOME/\~}"
  write_launcher bakery bakery/src bakery
}

# write_launcher COMMAND SOURCES MODULE: makes bin/COMMAND in the state folder, which runs MODULE from
# SOURCES. Unlike an installed package, it runs the sources as they are now.
write_launcher() {
  local text command=$1 folders
  # A checkout may be moved together with its build folder.
  folders='root=$(cd -- "$(dirname -- "$(readlink -f -- "$0")")/../.." && pwd) tools=$root/build'
  [ "$phase" != inferlets ] || folders="root='$root' tools='$tools'"
  text=$(cat <<SCRIPT
#!/bin/sh
# Written by scripts/setup.sh: runs $command.
$folders
python='$venv/bin/python'
[ -x "\$python" ] || { echo "\$python is missing. Run: $again" >&2; exit 1; }
PATH="\$tools/rust/bin:\$PATH" PYTHONPATH="\$root/$2" exec "\$python" -m $3 "\$@"
SCRIPT
  )
  if [ "$(cat "$state/bin/$command" 2>/dev/null)" != "$text" ]; then
    printf '%s\n' "$text" >"$state/bin/.$command.$$"
    chmod +x "$state/bin/.$command.$$"
    mv -f "$state/bin/.$command.$$" "$state/bin/$command"
  fi
  ln -sfn "$venv" "$state/venv"
}
