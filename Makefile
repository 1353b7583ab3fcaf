# SPDX-License-Identifier: Apache-2.0

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

GO ?= go
# A go.work of yours is for development; what is checked here is each module as
# its users get it.
export GOWORK := off

# What a program that links grpc needs, so that the linker can drop unused code.
TAGS := grpcnotrace
# Version stamping fails where git does not work; then build without it.
VCS  := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo auto || echo false)

CROSS   := linux/arm64 linux/arm darwin/arm64
# The node agent without what a small node has no use for: an API server, metrics,
# CSI drivers, profiles, and HTTP/2 to probes and manifest URLs.
EDGE_TAGS := $(TAGS),noapiserver,nometrics,nocsi,noprofiling
# Nobody calls most of what is generated code, or comes with the API's types: it need
# not be inlined. HTTP/2 is the standard library's own tag.
EDGE_FLAGS = -trimpath -tags $(EDGE_TAGS),nethttpomithttp2 -ldflags '-s -w -funcalign=16' \
	$(foreach pkg,k8s.io/api/core/v1 k8s.io/apimachinery/pkg/apis/meta/v1 github.com/json-iterator/go github.com/fxamacker/cbor/v2,-gcflags=$(pkg)=-l)
EDGE      ?= amd64 arm64 arm
EDGE_MAX  := 20000000
FUZZ    ?= 5
COUNT   ?= 1
BENCH   ?= .
OUT     ?= bench.out
MODULES  = $(shell find . -name go.mod -not -path '*/testdata/*' -exec dirname {} \; | sort)

# The slow and the telling come last: the end of the log is what the tests said.
STEPS := fmt tidy vet lint arrows examples cross fuzz schedules race

.PHONY: help test deps docs $(STEPS) race-real race-rest unit build e2e matrix soak soak-containerd bench-node bench benchstat clean cc

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## everything a change must pass, and what CI runs: the steps below in turn
	@$(GO) version
	@tools/deps.sh
	@for step in $(STEPS); do \
		printf '\n==> make %s\n' "$$step"; \
		$(MAKE) "$$step" || { printf '\nmake %s failed\n' "$$step" >&2; exit 1; }; \
	done
	@printf '\nall passed: $(STEPS)\n'

deps: ## what the tests need beside Go; as root on Debian it is installed
	@tools/deps.sh

fmt: ## every file is gofmt's
	@files=$$(find . -name '*.go' -not -path '*/testdata/*' -print0 | xargs -0 gofmt -l); \
	if [ -n "$$files" ]; then printf 'not formatted, run gofmt -w on:\n%s\n' "$$files" >&2; exit 1; fi

tidy: ## every go.mod and go.sum says just what is needed
	@for dir in $(MODULES); do echo "$$dir/go.mod"; $(GO) -C "$$dir" mod tidy -diff; done

vet: ## go vet
	$(GO) vet -tags $(TAGS) ./...

lint: ## staticcheck, with the checks of staticcheck.conf
	$(GO) tool -modfile=tools/go.mod staticcheck -tags $(TAGS) ./...

arrows: ## the import graph, the source rules, the code in README.md
	$(GO) test -vet=off -count=1 -timeout=10m .

docs: ## docs/podspec.md written anew, by asking the code
	$(GO) test -vet=off -count=1 -run='^TestPodSpecTable$$' ./examples/nodeagent/podspec -rewrite

examples: ## every example program links, and the edge binary is small
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	CGO_ENABLED=0 $(GO) build -tags $(TAGS) -buildvcs=false -o "$$dir/" ./examples/...; ls "$$dir"
	@$(MAKE) edge EDGE=amd64

cross: ## everything compiles for other systems, without cgo; the node agent with each set of tags
	@for target in $(CROSS); do echo "$$target"; \
		CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} $(GO) build -tags $(TAGS) -buildvcs=false ./...; \
	done
	@for tags in $(TAGS),noapiserver $(TAGS),nocsi $(EDGE_TAGS); do echo "-tags $$tags"; \
		CGO_ENABLED=0 $(GO) build -tags $$tags -buildvcs=false ./examples/nodeagent/...; \
	done

fuzz: ## every fuzz target for FUZZ seconds (5)
	@GO=$(GO) tools/fuzz.sh $(FUZZ)

# The agent's own tests wait for real processes and containers, for minutes, and
# need little of the CPU: they run beside all others.
REAL := ./examples/nodeagent
race: cc ## all tests under the race detector
	@CGO_ENABLED=1 $(GO) build -race ./...
	@$(MAKE) -j2 -Otarget race-real race-rest

race-real:
	CGO_ENABLED=1 $(GO) test -race -vet=off -count=1 -timeout=15m $(REAL)

race-rest:
	CGO_ENABLED=1 $(GO) test -race -vet=off -count=1 -timeout=10m $$($(GO) list ./... | grep -vFx "$$($(GO) list $(REAL))")

unit: ## all tests without the race detector; needs no C compiler
	$(GO) test -vet=off -timeout=10m ./...

cc:
	@cc=$$($(GO) env CC); \
	if ! printf '#include <stdlib.h>\n' | "$$cc" -E - >/dev/null 2>&1; then \
		echo "The race detector needs cgo, and so a C compiler with the C library's headers" >&2; \
		echo "(on Debian: gcc and libc6-dev); '$$cc' does not work. 'make unit' runs the tests without it." >&2; \
		exit 1; \
	fi

build: ## bin/nodeagent: one static file
	CGO_ENABLED=0 $(GO) build -trimpath -tags $(TAGS) -ldflags '-s -w' -buildvcs=$(VCS) -o bin/nodeagent ./examples/nodeagent

edge: ## bin/nodeagent-edge-*: the node agent for small nodes, 20 MB at most on amd64; EDGE="amd64 arm64 arm"
	@for arch in $(EDGE); do \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build $(EDGE_FLAGS) -buildvcs=$(VCS) -o bin/nodeagent-edge-$$arch ./examples/nodeagent; \
		size=$$(stat -c %s bin/nodeagent-edge-$$arch 2>/dev/null || stat -f %z bin/nodeagent-edge-$$arch); \
		awk -v arch=$$arch -v size=$$size 'BEGIN { printf "edge binary, linux/%-5s %5.1f MB\n", arch, size / 1e6 }'; \
		if [ "$$arch" = amd64 ] && [ "$$size" -gt $(EDGE_MAX) ]; then echo "that is more than 20 MB: what came in that a small node has no use for?" >&2; exit 1; fi; \
	done

e2e: ## the tests on containerd 2 and on a kube-apiserver with etcd (as root, on Linux; a cold build takes ten minutes)
	@dir=$$(e2e/containerd.sh); api=$$(e2e/kubernetes.sh); \
	KEELSON_CONTAINERD_DIR="$$dir" KEELSON_REQUIRE_CONTAINERD=1 \
	KEELSON_APISERVER_DIR="$$api" KEELSON_REQUIRE_APISERVER=1 KEELSON_E2E=1 \
		$(GO) test -vet=off -tags $(TAGS) -count=1 -p 1 -timeout=30m ./internal/containerdtest/... ./internal/apiservertest/... ./internal/apiproxy/... \
		./runtime/cri/... ./podconfig/apiserver/... ./podconfig/mirror/... ./statusmanager/... ./imagegc/... ./volumemanager/internal/crashtest/... ./examples/nodeagent/... ./internal/soak/...

schedules: ## 1,000 of the random schedules of make matrix
	CGO_ENABLED=0 $(GO) test -vet=off -count=1 -timeout=10m -run='^TestMatrix$$' ./examples/nodeagent/nodetest -schedules=1000

matrix: ## 100,000 random schedules of a node in virtual time, half an hour or so (ARGS='-schedules=5000 -seed=7')
	CGO_ENABLED=0 KEELSON_SOAK=1 $(GO) test -v -vet=off -count=1 -timeout=180m -run='^TestMatrix$$' ./examples/nodeagent/nodetest $(ARGS)

soak: matrix soak-containerd ## the node agent under faults for long: the one above and the one below, most of an hour

soak-containerd: ## the node agent on a containerd that is killed, too (root, Linux, 10 minutes; ARGS='-soak.for 3m -soak.seed 7')
	@dir=$$(e2e/containerd.sh); KEELSON_CONTAINERD_DIR="$$dir" KEELSON_REQUIRE_CONTAINERD=1 KEELSON_SOAK=1 \
		$(GO) test -vet=off -tags $(TAGS) -count=1 -v -timeout=60m -run Soak ./internal/soak $(ARGS)

bench-node: build ## the node agent on containerd 2 beside the floor: starts, restarts, idle cost (root, Linux, minutes)
	@dir=$$(e2e/containerd.sh); \
	KEELSON_CONTAINERD_DIR="$$dir" $(GO) run -tags $(TAGS) ./internal/benchnode -agent bin/nodeagent $(ARGS)

bench: ## all benchmarks beside their goals and references; COUNT=1 BENCH=. OUT=bench.out
	@GO=$(GO) tools/bench.sh '$(BENCH)' $(COUNT) $(OUT)

benchstat: ## compare two outputs of make bench: OLD=a.out NEW=b.out
	$(GO) tool -modfile=tools/go.mod benchstat $(OLD) $(NEW)

clean: ## what was built here
	rm -rf bin bench.out
