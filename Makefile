# SPDX-License-Identifier: Apache-2.0

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

GO ?= go
# A go.work of yours is for development; what is checked here is each module as
# its users get it.
export GOWORK := off
export CGO_ENABLED := 0
# Where a C compiler works, the steps of make test share the packages that are compiled for the race detector. Debuggers
# do not see these programs: without their tables, compilers and linkers need 7 % less processor time.
RACED := $(shell printf '\043include <stdlib.h>\n' | $$($(GO) env CC) -E - >/dev/null 2>&1 && echo CGO_ENABLED=1 "GOFLAGS='-race -gcflags=all=-dwarf=false'")

# What a program that links grpc needs, so that the linker can drop unused code.
TAGS := grpcnotrace
# Version stamping fails where git does not work; then build without it.
VCS  := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo auto || echo false)

CROSS   := linux/arm64 linux/arm darwin/arm64
BUILD_FLAGS = -trimpath -tags $(TAGS) -ldflags '-s -w'
# Where releases run. Containers are Linux processes: elsewhere the agent only compiles.
PLATFORMS ?= linux/amd64 linux/arm64 linux/arm
# The version of packages that are no release.
UNTAGGED := v0.0.0-dev
# The node agent without what a small node has no use for: an API server, metrics,
# CSI drivers, profiles, evictions, cgroups for pods, device plug-ins, kinds other than Pod, images, and HTTP/2 to probes and manifest URLs.
EDGE_TAGS := $(TAGS),nolocalapi,noapiserver,nometrics,nocsi,noprofiling,noeviction,nocgroups,nodevices,noseccomp,nokinds,noimagearchives,noimages
# Functions are inlined in the standard library only, without its packages about networks, formats,
# files and time: elsewhere that costs 1.2 MB. HTTP/2 is the standard library's own tag.
EDGE_FLAGS = -trimpath -tags $(EDGE_TAGS),nethttpomithttp2 -ldflags "-s -w -funcalign=$$([ $$arch = amd64 ] && echo 1 || echo 4)" \
	$(foreach host,k8s.io sigs.k8s.io go.yaml.in google.golang.org golang.org go.uber.org github.com net encoding mime regexp text vendor/golang.org os time context bufio log compress path html math/big bytes,-gcflags=$(host)/...=-l) \
	-gcflags=crypto/tls=-l -gcflags=crypto/x509=-l
EDGE      ?= amd64 arm64 arm
EDGE_MAX  := 20000000
FUZZ    ?= 3
COUNT   ?= 1
BENCH   ?= .
OUT     ?= bench.out
MODULES  = $(shell find . -name go.mod -not -path '*/testdata/*' -exec dirname {} \; | sort)

# The slow and the telling come last: the end of the log is what the tests said.
STEPS := fmt race
# What compiles everything anew, for another system or with other flags, what reads every dependency, and fuzzing.
EXTRA := tidy vet examples natsagent fwk cross release-dry tools lint schedules rounds fuzz

# Compilers, linkers and tests that collect garbage less often need a fifth less processor time, and some memory more.
$(STEPS) $(EXTRA): export GOGC := 400
# By default, a program with the race detector sleeps for a second before it ends.
$(STEPS): export GORACE := atexit_sleep_ms=0

.PHONY: help test extra deps docs dst dst-fleet parity mutants strength museum $(STEPS) $(EXTRA) unit build e2e conformance session matrix updates hostile programs soak soak-containerd kills powercut bench-node bench-process bench-stats bench-sessions bench-simulation bench-fleet bench benchstat vuln api surface release packages clean cc

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# in-turn: the targets named, one after the other, up to the first that fails.
in-turn = for step in $(1); do \
		printf '\n==> make %s\n' "$$step"; \
		$(MAKE) "$$step" || { printf '\nmake %s failed\n' "$$step" >&2; exit 1; }; \
	done; printf '\nall passed: $(1)\n'

test: ## what every change must pass: format, and all tests under the race detector, arrows among them
	@$(GO) version
	@tools/deps.sh
	@$(call in-turn,$(STEPS))

extra: ## what CI runs besides: tidy, vet, other systems and flags, the edge binary, a dry release, the tools, staticcheck, schedules, all rounds of random input, fuzzing
	@$(call in-turn,$(EXTRA))

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
	$(GO) -C tools tool staticcheck ./...

tools: ## the tools of this Makefile do what they say
	$(GO) -C tools vet ./...
	$(GO) -C tools test -count=1 -timeout=10m ./...

arrows: ## the import graph, the source rules, the code in README.md
	$(RACED) $(GO) test -vet=off -tags $(TAGS) -count=1 -timeout=25m .

docs: ## docs/podspec.md and docs/kubeletconfig.md written anew, by asking the code
	$(GO) test -vet=off -count=1 -run='^TestKubeletConfigTable$$' ./examples/nodeagent/nodeconfig -rewrite
	$(GO) test -vet=off -count=1 -run='^TestPodSpecTable$$' ./examples/nodeagent/podspec -rewrite

examples: ## every example program links, and the edge binary is small
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	$(GO) build -tags $(TAGS) -buildvcs=false -o "$$dir/" ./examples/...; ls "$$dir"
	@$(MAKE) edge EDGE=amd64

natsagent: ## the example of a message bus, a module of its own: vet, and tests on a NATS server inside the test
	$(GO) -C examples/natsagent vet -tags $(TAGS) ./...
	$(GO) -C examples/natsagent test -vet=off -tags $(TAGS) -count=1 -timeout=5m ./...

fwk: ## plug-ins of kube-scheduler in simulations, a module of its own: vet, and tests
	$(GO) -C examples/simulation/fwk vet ./...
	$(GO) -C examples/simulation/fwk test -vet=off -count=1 -timeout=5m ./...

cross: ## everything compiles for other systems, without cgo; the node agent with each set of tags
	@for target in $(CROSS); do echo "$$target"; \
		GOOS=$${target%/*} GOARCH=$${target#*/} $(GO) build -tags $(TAGS) -buildvcs=false ./...; \
	done
	@for tags in $(TAGS),noapiserver $(TAGS),nocsi $(TAGS),noeviction $(TAGS),nocgroups $(TAGS),nodevices $(TAGS),nohotplug $(TAGS),nolocalapi $(TAGS),nokinds $(TAGS),noimagearchives $(TAGS),noimages $(EDGE_TAGS); do echo "-tags $$tags"; \
		$(GO) build -tags $$tags -buildvcs=false ./examples/nodeagent/...; \
	done

fuzz: ## every fuzz target for FUZZ seconds (3)
	@GO=$(GO) tools/fuzz.sh $(FUZZ)

# One go command compiles each package once, and starts first what it names first: tests that take minutes.
# Five programs at once keep two cores busy meanwhile.
REAL := ./examples/nodeagent
race: cc ## all tests under the race detector
	$(RACED) $(GO) test -vet=off -tags $(TAGS) -count=1 -timeout=30m -p 5 $(REAL) . ./runtime/process ./runtime/cri ./...

unit: ## all tests without the race detector; needs no C compiler
	$(GO) test -vet=off -tags $(TAGS) -timeout=25m ./...

cc:
	@if [ -z "$(RACED)" ]; then \
		echo "The race detector needs cgo, and so a C compiler with the C library's headers" >&2; \
		echo "(on Debian: gcc and libc6-dev); '$$($(GO) env CC)' does not work. 'make unit' runs the tests without it." >&2; \
		exit 1; \
	fi

build: ## bin/nodeagent: one static file
	$(GO) build $(BUILD_FLAGS) -buildvcs=$(VCS) -o bin/nodeagent ./examples/nodeagent

edge: ## bin/nodeagent-edge-*: the node agent for small nodes, 20 MB at most on amd64; EDGE="amd64 arm64 arm"
	@for arch in $(EDGE); do \
		GOOS=linux GOARCH=$$arch $(GO) build $(EDGE_FLAGS) -buildvcs=$(VCS) -o bin/nodeagent-edge-$$arch ./examples/nodeagent; \
		size=$$(stat -c %s bin/nodeagent-edge-$$arch 2>/dev/null || stat -f %z bin/nodeagent-edge-$$arch); \
		awk -v arch=$$arch -v size=$$size 'BEGIN { printf "edge binary, linux/%-5s %5.1f MB\n", arch, size / 1e6 }'; \
		if [ "$$arch" = amd64 ] && [ "$$size" -gt $(EDGE_MAX) ]; then echo "that is more than 20 MB: what came in that a small node has no use for?" >&2; exit 1; fi; \
	done

e2e: build ## the tests on containerd 2, on CRI-O (if conmon is there) and on a kube-apiserver with etcd and metrics-server, 40 of upstream's specs, and evictions compared with the kubelet's (as root, on Linux; a cold build takes half an hour)
	@dir=$$(e2e/containerd.sh); api=$$(WITH=kubeadm e2e/conformance.sh); top=$$(e2e/program.sh metrics-server); crio=$$(e2e/crio.sh); dns=$$(e2e/program.sh coredns); plugin=$$(e2e/program.sh sample-device-plugin); \
	KEELSON_SAMPLE_DEVICE_PLUGIN="$$plugin" KEELSON_CONTAINERD_DIR="$$dir" KEELSON_REQUIRE_CONTAINERD=1 KEELSON_METRICS_SERVER="$$top" KEELSON_CRIO_DIR="$$crio" KEELSON_COREDNS="$$dns" \
	KEELSON_APISERVER_DIR="$$api" KEELSON_REQUIRE_APISERVER=1 KEELSON_E2E=1 \
		$(GO) test -vet=off -tags $(TAGS) -count=1 -p 1 -timeout=30m ./internal/containerdtest/... ./internal/apiservertest/... ./internal/apiproxy/... ./internal/conformance \
		./runtime/cri/... ./podconfig/podwatch/... ./podconfig/mirror/... ./statusmanager/... ./imagegc/... ./volumemanager/internal/crashtest/... ./examples/nodeagent/... ./examples/simulation/fleet/... ./examples/simulation/sim/agents ./internal/soak/...
	@$(MAKE) conformance ARGS='-only keelson -short'
	@$(MAKE) conformance ARGS=-eviction

conformance: build ## upstream's conformance specs on a node of the kubelet and on one of the node agent (as root, on Linux, half an hour or more; ARGS='-only keelson -short', '-focus EmptyDir', '-runs 3')
	@dir=$$(e2e/containerd.sh); api=$$(e2e/conformance.sh); dns=$$(e2e/program.sh coredns); top=$$(e2e/program.sh metrics-server); plugin=$$(e2e/program.sh sample-device-plugin); \
	KEELSON_CONTAINERD_DIR="$$dir" KEELSON_APISERVER_DIR="$$api" KEELSON_COREDNS="$$dns" KEELSON_METRICS_SERVER="$$top" KEELSON_SAMPLE_DEVICE_PLUGIN="$$plugin" \
		$(GO) run -tags $(TAGS) ./internal/conformance -agent bin/nodeagent $(ARGS)

session: ## a user's session with kubectl, recorded on a node of the kubelet and on one of the node agent, and compared (as root, on Linux, ten minutes; ARGS='-only keelson')
	@$(MAKE) conformance ARGS='-session $(ARGS)'

bench-stats: ## the processor time that the node agent and the kubelet need to measure 100 pods, and the fields of the Summary API that only the kubelet fills (as root, on Linux, half an hour)
	@$(MAKE) conformance ARGS='-stats $(ARGS)'

schedules: ## 1,000 of the random schedules of make matrix
	$(GO) test -vet=off -count=1 -timeout=10m -run='^TestMatrix$$' ./examples/nodeagent/nodetest -schedules=1000

rounds: ## tests with random input, without the race detector: they play all of their rounds and cases, not a part as in make test
	$(GO) test -vet=off -tags $(TAGS) -count=1 -timeout=15m $$(grep -rlE --include='*_test.go' 'casetest\.(Rounds|Chosen|SkipUnlessChosen|Codes|Raced)' . | xargs -n1 dirname | sort -u | grep -vxE '\.|\./testdata/.*|$(REAL)')

matrix: ## 100,000 random schedules of a node in virtual time, 10,000 of evictions and 10,000 manifests with secrets, half an hour or so (ARGS='-schedules=5000 -seed=7')
	KEELSON_SOAK=1 $(GO) test -v -vet=off -count=1 -timeout=180m -run='^(TestMatrix|TestNoSecretIsTold)$$' ./examples/nodeagent/nodetest $(ARGS)
	$(GO) test -vet=off -count=1 -timeout=60m -run='^TestSchedules$$' ./examples/nodeagent/node/eviction -schedules=10000

updates: ## 100,000 random schedules of transactional updates in virtual time, three minutes (ARGS='-schedules=5000')
	$(GO) test -v -vet=off -count=1 -timeout=60m -run='^TestSchedules$$' ./examples/nodeagent/node/updates $(or $(ARGS),-schedules=100000)

dst: ## tests in an order of goroutines that SEED (1) decides: PKG=./... ARGS='-run TestX'; without PKG, the journals of SCHEDULES (100) schedules in two processes are compared
	@mkdir -p bin; $(GO) -C tools build -o ../bin/dst ./dst
ifdef PKG
	bin/dst -seed $(or $(SEED),1) test -vet=off -count=1 -timeout=60m $(PKG) $(ARGS)
else
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	bin/dst -seed $(or $(SEED),1) test -vet=off -c -o "$$dir/nodetest.test" ./examples/nodeagent/nodetest; cd examples/nodeagent/nodetest; \
	for n in 1 2; do \
		DST_SEED=$(or $(SEED),1) "$$dir/nodetest.test" -test.run='^(TestMatrix|TestDeterministic|TestJournalIsEqualInASecondRun)$$' -test.timeout=60m \
			-schedules=$(or $(SCHEDULES),100) -journals="$$dir/$$n" $(ARGS); \
	done; \
	diff -r "$$dir/1" "$$dir/2" && echo "two processes, equal journals of $$(find "$$dir/1" -type f | wc -l) schedules"
endif

dst-fleet: ## journals of NODES (10) agents on an API server in memory, in two processes, for SEEDS (10) seeds, are compared
	@mkdir -p bin; $(GO) -C tools build -o ../bin/dst ./dst
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	bin/dst test -vet=off -c -o "$$dir/cluster.test" ./examples/simulation/cluster; cd examples/simulation/cluster; \
	for n in 1 2; do \
		DST_SEED=1 "$$dir/cluster.test" -test.run='^TestFleet$$' -test.timeout=60m -fleet-nodes=$(or $(NODES),10) -fleet-seeds=$(or $(SEEDS),10) -fleet-journals="$$dir/$$n"; \
	done; \
	diff -r "$$dir/1" "$$dir/2" && echo "two processes, equal journals of $$(find "$$dir/1" -type f | wc -l) fleets"

parity: ## placements of PODS (10000) pods on NODES (500) nodes by plug-ins in package sim, compared with kube-scheduler's own engine, whose cold build takes some five minutes
	$(GO) -C examples/simulation/fwk/parity test -v -vet=off -count=1 -timeout=60m . -nodes=$(or $(NODES),500) -pods=$(or $(PODS),10000) $(ARGS)

mutants: ## small faults are put in, one at a time: the tests must notice (PKG=./prober FILES=plan.go N=100 SEED=1 DECIDERS=1 or SHELLS=1; DIFF=main: changed lines only)
	@mkdir -p bin; $(GO) -C tools build -o ../bin/mutants ./mutants
	@bin/mutants $(if $(PKG),-pkg '$(PKG)') $(if $(FILES),-files '$(FILES)') $(if $(N),-n $(N)) $(if $(SEED),-seed $(SEED)) \
		$(if $(DIFF),-diff $(DIFF)) $(if $(DECIDERS),-deciders) $(if $(SHELLS),-shells) $(if $(TESTS),-tests '$(TESTS)') $(ARGS)

strength: ## of N (200) mutants that change a pod's fate, how many random node schedules notice with no other test: hours (SEED=1 SCHEDULES=1000 ARGS=-v)
	@mkdir -p bin; $(GO) -C tools build -o ../bin/mutants ./mutants
	@nice -n 10 bin/mutants -strength -n $(or $(N),200) -seed $(or $(SEED),1) -args '-assembly=reference -schedules=$(or $(SCHEDULES),1000) -shrink=false' $(ARGS)

museum: ## faults of the kubelet are put in, one at a time: the test named after the issue must fail (ARGS='-run TestUpstream123')
	@mkdir -p bin; $(GO) -C tools build -o ../bin/museum ./museum
	@bin/museum $(ARGS)

hostile: ## 100,000 random hostile API servers against the status manager, in virtual time, a quarter of an hour or so
	KEELSON_SOAK=1 $(GO) test -v -vet=off -count=1 -timeout=180m -run='^TestHostileServers$$' ./statusmanager $(ARGS)

programs: ## the programs of README.md and docs, interrupted at 200 instants on the process backend and on a fake with each kind of fault, half an hour or so
	KEELSON_SOAK=1 $(GO) test -v -vet=off -count=1 -timeout=60m -run='^(TestReadmeCode|TestProgramFaults)$$' . $(ARGS)

soak: matrix updates hostile programs soak-containerd kills powercut ## the node agent under faults for long: the four above and the three below, many hours

soak-containerd: ## the node agent on a containerd that is killed, too (root, Linux, 10 minutes; ARGS='-soak.for 3m -soak.seed 7')
	@dir=$$(e2e/containerd.sh); KEELSON_CONTAINERD_DIR="$$dir" KEELSON_REQUIRE_CONTAINERD=1 KEELSON_SOAK=1 \
		$(GO) test -vet=off -tags $(TAGS) -count=1 -v -timeout=60m -run Soak ./internal/soak $(ARGS)

kills: ## kill -9 of the node agent N times (1,000) on the process backend, Debian's containerd and containerd 2: nothing may be left 10 s later (root, Linux, hours; RUN=TestKills/process ARGS='-soak.seed 7')
	@dir=$$(e2e/containerd.sh); for dir in "" "$$dir"; do \
		KEELSON_CONTAINERD_DIR="$$dir" KEELSON_REQUIRE_CONTAINERD=1 KEELSON_SOAK=1 \
		$(GO) test -vet=off -tags $(TAGS) -count=1 -v -timeout=24h -run '$(or $(RUN),^TestKills$$)' ./internal/soak -soak.kills $(or $(N),1000) $(ARGS); done

powercut: ## the node agent on 1,000 images of what a power cut leaves on its disk, and under 300 disk faults, an hour (root, Linux; ARGS='-images 100 -faults 30 -seed 7')
	$(GO) test -vet=off -tags $(TAGS) -count=1 -v -timeout=240m -run='^(TestPowerCuts|TestDiskFaults)$$' ./internal/powercut -images 1000 -faults 300 $(ARGS)

bench-node: build ## the node agent on containerd 2 beside the floor: starts, restarts, idle cost (root, Linux, minutes)
	@dir=$$(e2e/containerd.sh); \
	KEELSON_CONTAINERD_DIR="$$dir" $(GO) run -tags $(TAGS) ./internal/benchnode -agent bin/nodeagent $(ARGS)

bench-process: build ## the node agent on the process backend beside runit: 1,000 containers started, idle and stopped (Linux; CONTAINERS=1000 ARGS='-idle 10s -- --v 1')
	@tools/deps.sh runsvdir:runit bwrap:bubblewrap
	$(GO) run -tags $(TAGS) ./internal/benchnode -agent bin/nodeagent -beside-runit $(or $(CONTAINERS),1000) $(ARGS)

bench-sessions: ## what 1,000 log followers and 200 commands at once, and the server itself, cost the node agent (Linux, two minutes)
	KEELSON_SOAK=1 $(GO) test -vet=off -count=1 -v -timeout=20m -run='^(TestManySessions|TestClientsThatNeverRead|TestCostOfTheServer)$$' ./examples/nodeagent

bench-simulation: ## processor time, memory and calls of simulated nodes in an hour of virtual time, under load and idle: NODES=100 PODS=100
	$(GO) test -vet=off -count=1 -v -timeout=60m -run='^TestCost$$' ./examples/simulation/sim/agents -args -nodes $(or $(NODES),100) -pods $(or $(PODS),100)

bench-fleet: ## processor time and memory of runfleet on a kube-apiserver with the real kube-scheduler, and of kwok beside it with KWOK=1: NODES=1000 PODS=10000
	@mkdir -p bin; $(GO) build $(BUILD_FLAGS) -buildvcs=false -o bin/runfleet ./examples/simulation/runfleet
	@api=$$(e2e/conformance.sh); $(if $(KWOK),export KEELSON_KWOK=$$(e2e/program.sh kwok) KEELSON_KWOK_STAGES=$$(GOWORK=off $(GO) -C e2e/kwok list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage;) \
	KEELSON_RUNFLEET="$$PWD/bin/runfleet" KEELSON_APISERVER_DIR="$$api" KEELSON_REQUIRE_APISERVER=1 \
		$(GO) test -vet=off -count=1 -v -timeout=60m -run='^TestCost$$' ./examples/simulation/runfleet -args -nodes $(or $(NODES),100) -pods $(or $(PODS),1000)

bench: ## all benchmarks beside their goals and references; COUNT=1 BENCH=. OUT=bench.out
	@GO=$(GO) tools/bench.sh '$(BENCH)' $(COUNT) $(OUT)

benchstat: ## compare two outputs of make bench: OLD=a.out NEW=b.out
	$(GO) tool -modfile=tools/go.mod benchstat $(OLD) $(NEW)

vuln: ## known vulnerabilities in code that is called (needs https://vuln.go.dev, or GOVULNDB=file:///folder)
	@GO=$(GO) TAGS=$(TAGS) tools/vuln.sh

api: ## how the exported names differ from those of the last release
	@GO=$(GO) tools/api.sh

surface: ## option fields that no code sets, and exported names that no code outside their package uses (ARGS='-pkg ./runtime -v')
	@mkdir -p bin; $(GO) -C tools build -o ../bin/surface ./surface
	@bin/surface $(ARGS)

release: ## tag VERSION=v0.37.0 and make its packages in dist; DRY=1 tags nothing and builds for this platform only
	@mkdir -p bin; $(GO) -C tools build -o ../bin/release ./release
	@bin/release -check -version '$(VERSION)' $(if $(DRY),-dry)
	@$(if $(DRY),$(MAKE) packages PLATFORMS="$$($(GO) env GOOS)/$$($(GO) env GOARCH)", \
		git tag -a '$(VERSION)' -m 'keelson $(VERSION)'; $(MAKE) packages || { git tag -d '$(VERSION)'; exit 1; })
	@ls -sh dist/*.*; cat dist/SHA256SUMS
	@$(if $(DRY),echo 'dry run: nothing is tagged',echo 'next: git push origin $(VERSION); then create the release there with the files of dist')

release-dry: ## a release of this tree for this platform, without a tag
	@$(MAKE) release DRY=1

# In a release the tag is there before the build, so that the programs know their version. Packages of the
# same files are the same bytes.
packages: ## tarballs, deb and rpm packages of the node agent, checksums and SBOMs in dist (VERSION=v0.37.0 PLATFORMS=linux/amd64)
	@rm -rf dist; mkdir -p bin; $(GO) -C tools build -o ../bin/release ./release; $(GO) -C tools build -o ../bin/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
	@for platform in $(PLATFORMS); do os=$${platform%/*}; arch=$${platform#*/}; \
		for name in nodeagent nodeagent-edge; do \
			dir="dist/$${name}_$${os}_$${arch}"; mkdir -p "$$dir"; cp -r LICENSE README.md CHANGELOG.md examples/nodeagent/systemd/*.service "$$dir"; \
			case $$name in \
			*-edge) set -- $(EDGE_FLAGS);; \
			*) set -- $(BUILD_FLAGS);; \
			esac; \
			GOOS=$$os GOARCH=$$arch $(GO) build "$$@" -buildvcs=$(VCS) -o "$$dir/$$name" ./examples/nodeagent; \
			if [ $$os != linux ]; then continue; fi; \
			for kind in deb rpm; do \
				PROGRAM=$$name FOLDER=$$dir ARCH=$${arch/%arm/arm7} VERSION='$(or $(VERSION),$(UNTAGGED))' SOURCE_DATE_EPOCH=0 \
					bin/nfpm package --config examples/nodeagent/systemd/nfpm.yaml --packager $$kind --target dist; \
			done; \
		done; done
	@bin/release -pack dist -version '$(or $(VERSION),$(UNTAGGED))'

clean: ## what was built here
	rm -rf bin dist bench.out
