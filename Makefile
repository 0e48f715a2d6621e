# SPDX-License-Identifier: BSD-3-Clause
# Every step that continuous integration takes is a target here. `make help` lists them.

CARGO ?= cargo
TARGET := $${CARGO_TARGET_DIR:-target}
TWIN ?= $(HOME)/.local/lib/millrace/librte_net_twin.so
export MILLRACE_TWIN = $(TWIN)
BUILD_TWIN = $(CARGO) build --release --locked -p twin && scripts/build-twin "$(TARGET)" "$(TWIN)"
HOST = $(shell uname -m)-unknown-linux-gnu
MILLRACE := $(TARGET)/release/millrace
SIDEBYSIDE = $(CARGO) run --release --locked -p sidebyside -- --millrace "$(MILLRACE)"
PROVE = $(CARGO) test --locked --package millrace --test live -- --nocapture
.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^## \([^:]*\):.*/\1/p' Makefile)

## run: the demo, without and with offload on a software NIC; CAPTURE=file.pcap: of its packets
run: build
	$(BUILD_TWIN) || [ $$? -eq 3 ]
	$(MILLRACE) demo $(if $(CAPTURE),--capture "$(CAPTURE)")
## build: the program, optimised
build: deps-run
	$(CARGO) build --release --locked --package millrace
## install: what was built, with completions, man pages and a sample configuration; PREFIX, DESTDIR
## uninstall: removes what install has put there
install uninstall:
	PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install $@ "$(TARGET)" "$(TWIN)"
## test: every test; those that lack root or a tool say why they skip; MEANWHILE=command beside them
test: deps-test
	$(BUILD_TWIN) || [ $$? -eq 3 ]
	scripts/fuzz-edge "$(TARGET)" "$(TARGET)/release/libtwin.a" 5 || [ $$? -eq 3 ]
	CARGO="$(CARGO)" scripts/test
## twin: the software NIC, a driver for any program of this DPDK; TWIN=file says where it goes
twin: deps-run
	$(BUILD_TWIN)
## check: format, lints, drawings and documentation, without a warning
check: deps-check
	$(CARGO) fmt --all --check && $(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy --workspace --test live --locked -- -D warnings
	scripts/draw --check && RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked
## bench: micro-benchmarks, testpmd beside Millrace, the generator (BENCH_ARGS="--help")
bench: deps-bench build
	$(BUILD_TWIN) || [ $$? -eq 3 ]
	$(CARGO) bench --locked -p engine -p offload --bench engine --bench admission
	$(SIDEBYSIDE) $(BENCH_ARGS)
	$(CARGO) bench --locked -p millrace --bench generator
## pgo: the program with profile-guided optimisation, its figures beside those of `build`
pgo: build ; CARGO="$(CARGO)" scripts/pgo "$(TARGET)"
## profile: where workers spend their time, by perf, and what share is locks (none); PID=process
profile: build ; scripts/profile $(if $(PID),-p "$(PID)","$(MILLRACE)")
## bench-search: real searches for highest loads, ten minutes; Millrace is the device of the last
bench-search: build twin
	scripts/bench-search "$(MILLRACE)"
## bench-peers: Open vSwitch, Linux and Millrace side by side; needs root (BENCH_ARGS="--save")
bench-peers: deps-ci build
	$(SIDEBYSIDE) --peers $(BENCH_ARGS)
## aarch64: tests of the crates without DPDK for 64-bit ARM, under qemu; needs its compiler and std
aarch64:
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu" \
	$(CARGO) test --locked -p wire -p engine -p traffic --target aarch64-unknown-linux-gnu
## prove-offload: a million rules of a NIC that goes wrong, which change nothing; CYCLES=number
prove-offload:
	MILLRACE_CYCLES=$${CYCLES:-1000000} MILLRACE_CASES=3000 \
	$(CARGO) test --locked -p offload --test twin --test exchange -- --nocapture equivalence no_mark
## prove-attacks: floods, blind guesses and strange clocks in full size, with their figures
## prove-model: the engine against a naive reference, thirty times as often
prove-attacks prove-model: prove-%:
	MILLRACE_FULL=1 $(CARGO) test --release --locked -p engine --test suite $*:: -- --nocapture
## prove-bypass: a NIC that forwards by itself, over LOOPS of packets; TRANSFERS of kernel TCP
prove-bypass: deps-test twin
	MILLRACE_LOOPS=$${LOOPS:-20000} MILLRACE_TRANSFERS=$${TRANSFERS:-10000} $(PROVE) bypass handover
## prove-conntrack: a million packets, each of them as Linux sees it; SESSIONS, SEED; needs root
prove-conntrack: deps-test
	MILLRACE_SESSIONS=$${SESSIONS:-20000} MILLRACE_SEED=$${SEED:-1} $(PROVE) the_kernel_says
## prove-restart: kernel TCP through a bump that is killed RESTARTS times; CONNECTIONS; needs root
prove-restart: deps-test
	MILLRACE_RESTARTS=$${RESTARTS:-1000} MILLRACE_CONNECTIONS=$${CONNECTIONS:-100} $(PROVE) outlives
## prove-cases: all faults, NICs, loads, signals, samples of which `make test` tries some
prove-cases: deps-test twin
	MILLRACE_FULL=1 $(CARGO) test --locked --workspace --lib --test search --test stateless
	MILLRACE_ALL_CASES=1 $(PROVE) equiv demo backends bypass ending stateful list_ bench_c reset hando
## fuzz: each fuzz target for FUZZ_SECONDS; needs rustup's nightly and cargo-fuzz
fuzz: deps-run ; CARGO="$(CARGO)" scripts/fuzz $${FUZZ_SECONDS:-60}
## asan: flow rules and packets through the C of the software NIC for ASAN_SECONDS; needs nightly
asan: deps-run
	RUSTFLAGS=-Zsanitizer=address $(CARGO) +nightly build --locked --package twin --target $(HOST)
	scripts/fuzz-edge "$(TARGET)" "$(TARGET)/$(HOST)/debug/libtwin.a" $${ASAN_SECONDS:-60} $(ASAN_SEED)
## smoke: SMOKE_SECONDS of kernel traffic, memif and link flaps through a bump; needs root
smoke: deps-test build
	MILLRACE="$(MILLRACE)" smoke/run.sh $${SMOKE_SECONDS:-120}
## vm-test: Millrace on PCI NICs that QEMU emulates, two minutes; MODEL=all, or some; needs root
vm-test: build ; scripts/vm-test "$(MILLRACE)" $(MODEL) || [ $$? -eq 3 ]
## clean: remove what was built
clean: ; $(CARGO) clean
## help: this list
help:
	@sed -n 's/^## \([^:]*\): /\1\t/p' Makefile | expand -t 8
# Distribution packages and parts of Rust; does nothing where all are there.
deps-run deps-check deps-bench deps-test deps-ci: deps-%:
	@scripts/install-deps $*
