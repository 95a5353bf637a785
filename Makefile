# `make help` lists what can be made.

PREFIX ?= /usr/local
FUZZ_SECONDS ?= 20
SOAK_CALLS ?= 10000

# The documentation is for those who work on the code: it shows private items and may link to them.
DOC_LINTS := -D warnings -A rustdoc::private_intra_doc_links

.DEFAULT_GOAL := help

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## build, start a server, and have a scripted model do a task in a real sandbox; no key needed
	@scripts/demo

.PHONY: test
test: ## install what tests need and is missing, build, run every test, also as an ordinary user
	@scripts/setup
	cargo test --workspace --locked --no-fail-fast
	@scripts/test-as-user
	@scripts/test-backends

.PHONY: test-backends
test-backends: ## the suite of the sandbox on podman, docker, gvisor and microvm, and the program on each
	@scripts/setup
	@scripts/test-backends

.PHONY: test-real-model
test-real-model: ## test the model clients with a real, small model; fetches it once (270 MB)
	@scripts/test-real-model

.PHONY: check
check: ## formatting, lints, documentation, layers, modules, headers, names, sizes and commit subjects
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	CUSTOM_LIBFUZZER_PATH=/not/linked/libfuzzer.a cargo clippy --manifest-path fuzz/Cargo.toml --locked -- -D warnings
	RUSTDOCFLAGS="$(DOC_LINTS)" cargo doc --workspace --no-deps --document-private-items --locked --quiet
	@scripts/check-layers
	@scripts/check-modules --self-test
	@scripts/check-modules
	@scripts/check-headers
	@scripts/check-names --self-test
	@scripts/check-names
	@scripts/check-sizes --self-test
	@scripts/check-sizes
	@scripts/check-commits --self-test
	@scripts/check-commits

.PHONY: bench
bench: ## measure sandboxes beside bwrap, runc, podman, runsc and others, the agent, the server and the UI; writes bench.json
	@scripts/setup bench
	cargo build --release --locked --package cli --package bench
	target/release/bench --image "$$(scripts/base-image target/release/hotcell)"

.PHONY: soak
soak: ## SOAK_CALLS (10000) commands with random kills of every process of a sandbox, under a watchdog
	SOAK_CALLS=$(SOAK_CALLS) cargo test --release --locked --package cli --test soak

.PHONY: fuzz
fuzz: ## fuzz what reads untrusted bytes, FUZZ_SECONDS (20) for each target
	@scripts/fuzz $(FUZZ_SECONDS)

.PHONY: screenshots
screenshots: ## the pictures in docs/images, from the real program with a scripted model
	cargo build --release --locked
	@scripts/screenshots

.PHONY: deny
deny: ## licences, sources and advisories of all dependencies (needs cargo-deny)
	cargo deny --workspace check

.PHONY: install
install: ## the program, its manual page and completions, to PREFIX (/usr/local)
	cargo build --release --locked
	install -D target/release/hotcell $(DESTDIR)$(PREFIX)/bin/hotcell
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 \
	  $(DESTDIR)$(PREFIX)/share/bash-completion/completions \
	  $(DESTDIR)$(PREFIX)/share/zsh/site-functions \
	  $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	target/release/hotcell man > $(DESTDIR)$(PREFIX)/share/man/man1/hotcell.1
	target/release/hotcell completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/hotcell
	target/release/hotcell completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_hotcell
	target/release/hotcell completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/hotcell.fish
