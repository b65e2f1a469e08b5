# Every task of the project. `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
MAKEFLAGS += --no-print-directory

PYTHON := build/venv/bin/python
export PYTHONPATH := $(CURDIR)/bakery/src
# build/rust and build/node are what setup installed, where the system's own Rust or Node does not do.
export PATH := $(CURDIR)/build/rust/bin:$(CURDIR)/build/node:$(HOME)/.cargo/bin:$(PATH)

CPP_FILES = $(shell find src bench fuzz tests client/cpp sdk/cpp/include sdk/cpp/src \
  -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh')
CRATES = $(wildcard bridge/Cargo.toml sdk/rust/Cargo.toml client/rust/Cargo.toml)
PROMPT ?= Tell me about pie.
ROUNDS ?= 5
SEEDS ?= 1000
export CUDA

##@ Use
.PHONY: build setup demo docs
build: setup ## build everything, optimised: build/bin/pie and build/bin/bakery (the default); CUDA=1: for GPUs too
	@test -f build/release/build.ninja || cmake --preset release
	@$(if $(CUDA),cmake --preset release -DPIE_CUDA=ON >/dev/null)
	@cmake --build build/release
	@$(PYTHON) scripts/build_guests.py openai chat

setup: ## install what is missing; if nothing is, it takes no time
	@scripts/setup.sh

demo: setup ## build an inferlet and run it on the default model, streaming (PROMPT="…")
	@test -f build/release/build.ninja || cmake --preset release
	@cmake --build build/release --target pie
	@scripts/demo.sh "$(PROMPT)"

docs: setup ## build the site of all guides and references: build/site/index.html
	@$(PYTHON) scripts/build_reference.py
	@$(PYTHON) scripts/build_docs.py

##@ Install
.PHONY: install dist
install: build ## copy pie, bakery, SDKs, clients and guides to PREFIX=…, which may be moved
	@test -n "$(PREFIX)" || { echo "usage: make install PREFIX=/opt/pie" >&2; exit 2; }
	@scripts/install.sh "$(PREFIX)"

dist: build ## pack an installation into build/pie-VERSION-linux-MACHINE.tar.gz
	@scripts/install.sh --archive

##@ Work
.PHONY: test conformance test-cuda bench-cuda test-matrix test-asan test-tsan sim guests bench soak bench-cpu format bindings clean help
test: setup-test build ## run all tests: C++, bakery, and inferlets of every language end to end
	@$(PYTHON) scripts/run_tests.py

conformance: build ## run every name of the reference documents in every language, on the dummy and the default model
	@$(PYTHON) scripts/conformance.py
	@$(PYTHON) scripts/build_guests.py $(patsubst %,conformance-%,rust python typescript cpp)
	@PIE_CONFORMANCE_MODEL=default $(PYTHON) -m pytest -q -k languages_agree tests/e2e/test_conformance.py

test-cuda: ## the tests of the CUDA device; they say so where there is no GPU
	@$(MAKE) CUDA=1 build
	@build/bin/cuda_test

bench-cuda: ## measure the CUDA device on random weights of real shapes: build/bench-cuda.json
	@$(MAKE) CUDA=1 build
	@$(PYTHON) scripts/build_guests.py bench-guest
	@$(PYTHON) bench/run_cuda.py

test-matrix: setup-test build ## the end-to-end tests under every other configuration (ONLY="pages-1 q8")
	@$(PYTHON) scripts/build_guests.py
	@$(PYTHON) scripts/run_matrix.py $(ONLY)

test-asan: setup ## the C++ tests with the address and undefined-behaviour sanitizers
	@scripts/run_sanitized.sh asan

test-tsan: setup ## the C++ tests with the thread sanitizer
	@scripts/run_sanitized.sh tsan

sim: build ## simulate the scheduler in many worlds, one per seed (SEEDS=1000)
	@build/bin/pie-sim --seeds $(SEEDS)

guests: build ## build all inferlets of this tree into build/guests/
	@$(PYTHON) scripts/build_guests.py

bench: build ## measure the engine, the server, and the CPU backend against its peers (ROUNDS=5)
	@$(PYTHON) scripts/build_guests.py bench-empty bench-guest bench-hello serve-session-rust text-completion-rust \
	  bench-sdk-rust bench-sdk-cpp bench-sdk-typescript bench-sdk-python
	@$(PYTHON) bench/run.py --rounds $(ROUNDS)

soak: setup-test build ## run the engine and the server for long under attack: build/soak.json (SOAK="--minutes 60")
	@$(PYTHON) scripts/build_guests.py bench-soak bench-empty serve-session-rust
	@$(PYTHON) bench/reliability.py $(SOAK)

bench-cpu: build ## measure the CPU backend alone (ROUNDS=1 is quick)
	@$(PYTHON) bench/run.py cpu --rounds $(ROUNDS)

format: setup-check ## rewrite the sources in the house style
	@clang-format-19 -i $(CPP_FILES)
	@$(PYTHON) -m ruff check --quiet --fix . ; $(PYTHON) -m ruff format .
	@for crate in $(CRATES); do cargo fmt --all --manifest-path $$crate; done

bindings: setup ## regenerate the bindings that are kept in the tree from wit/
	@for script in $(wildcard sdk/*/scripts/generate_bindings.*); do echo "$$script"; $$script; done

clean: ## remove build/, but not the cache outside the tree
	rm -rf build

##@ Check
.PHONY: check setup-check setup-test check-format check-headers check-layers check-python check-rust \
  check-types check-typescript check-tidy
check: check-layers check-format check-python check-types check-rust check-typescript check-headers check-tidy ## run all checks below
	@echo "check: everything passed"

setup-test:
	@scripts/setup.sh test

setup-check:
	@scripts/setup.sh check

check-layers: ## includes of src/ point down the layers
	@python3 scripts/check_layers.py

check-headers: build ## every C++ header compiles on its own
	@$(PYTHON) scripts/check_headers.py

check-format: setup-check ## C++ is formatted
	@clang-format-19 --dry-run -Werror $(CPP_FILES)

check-python: setup-check ## Python passes ruff
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .

check-types: setup-check ## the Python SDK and client pass pyright in strict mode
	@scripts/check_types.sh

check-rust: setup-check ## Rust passes rustfmt and clippy, and its documentation has no gaps
	@scripts/check_rust.sh $(CRATES)

check-typescript: setup ## TypeScript passes tsc in strict mode
	@scripts/check_typescript.sh

check-tidy: setup-check build ## C++ passes clang-tidy; unchanged files are not checked again
	@$(PYTHON) scripts/check_tidy.py

help: ## print this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
