# Python: bakery, its tools, and the launchers in build/bin. Sourced by scripts/setup.sh.

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
      make setup"
      return 0
    fi
    touch "$venv/.complete"
  fi
  local tests
  tests=$venv/.tests-$(short_hash <tests/requirements.txt)
  if [ "$phase" != build ] && [ ! -e "$tests" ]; then
    say python "installing $(grep -o '^[a-z0-9-]*==[^ ]*' tests/requirements.txt | paste -sd' ')"
    logged "$venv/bin/python" -m pip install --disable-pip-version-check -r tests/requirements.txt &&
      touch "$tests" || warn "packages of the tests could not be installed (see $log)"
  fi
  say python "$("$venv/bin/python" -V | cut -d' ' -f2), $(grep -c '^[a-z]' bakery/requirements.txt) packages in ${venv/#$HOME/\~}"
  write_launcher bakery bakery/src bakery
}

# write_launcher COMMAND SOURCES MODULE: makes build/bin/COMMAND, which runs MODULE from SOURCES.
# Unlike an installed package, it runs the sources as they are now.
write_launcher() {
  local text command=$1
  text=$(cat <<SCRIPT
#!/bin/sh
# Written by scripts/setup.sh: runs $command from this checkout.
root=\$(dirname -- "\$(readlink -f -- "\$0")")/../..
python='$venv/bin/python'
[ -x "\$python" ] || { echo "\$python is missing. Run: make setup" >&2; exit 1; }
root=\$(cd -- "\$root" && pwd)
PATH="\$root/build/rust/bin:\$PATH" PYTHONPATH="\$root/$2" exec "\$python" -m $3 "\$@"
SCRIPT
  )
  if [ "$(cat "build/bin/$command" 2>/dev/null)" != "$text" ]; then
    printf '%s\n' "$text" >"build/bin/.$command.$$"
    chmod +x "build/bin/.$command.$$"
    mv -f "build/bin/.$command.$$" "build/bin/$command"
  fi
  ln -sfn "$venv" build/venv
}
