# The one place from which vipod is built, tested and shown. `make help` lists
# the targets.
#
# Modules. Every folder with a go.mod is a module that builds alone: all
# targets run with GOWORK=off, so that what is tested is what an image gets.
# go.work is for editors.
#
# Names of tests say what they need, there are no build tags:
#
#	TestNetns*  a network namespace of their own, so root   make test-netns
#	TestVM*     a virtual machine                           make test-vm
#	TestE2E*    a lab with the real daemons and API server  make test-e2e
#	TestFaults* a lab, long: faults watched from outside    make test-faults
#	TestModel*  minutes: random schedules of a cluster      make test-model
#	others      nothing                                     make test-unit
#
# A test that cannot get what it needs skips, unless VIPOD_REQUIRE_NETNS=1
# (VIPOD_REQUIRE_VM=1) is set, which `make test` and CI=true do: then it fails.
# End-to-end tests find the programs in $VIPOD_BIN_DIR.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Two compilers at once need more memory than they save time.
.NOTPARALLEL:

export GOWORK      := off
export GOFLAGS     := -mod=readonly -buildvcs=false
export GOTOOLCHAIN := go$(shell cat .go-version)
export VIPOD_BIN_DIR := $(CURDIR)/bin
ifeq ($(CI),true)
export VIPOD_REQUIRE_NETNS := 1
export VIPOD_REQUIRE_VM    := 1
endif

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)

DAEMONS := elector vipd linkd arpd bgpd egressd metricsd
MODULES := $(patsubst %/go.mod,%,$(shell git ls-files go.mod '**/go.mod'))
# The API server's module is only linked: its tests are other people's.
OURS    := $(filter-out deploy/lab/cluster,$(MODULES))

VERSION_PKG := github.com/vipod/vipod/shared/version
BUILD := go build -trimpath \
	-ldflags="-s -w -X $(VERSION_PKG).Version=$(VERSION) -X $(VERSION_PKG).Commit=$(COMMIT)"

# Debian packages of the tests and the demo, the C compiler for -race included.
PACKAGES := gcc libc6-dev iproute2 procps kmod curl libcap2-bin nftables conntrack \
	tcpdump iputils-arping iputils-ping ndisc6 qemu-system-x86 busybox-static cpio \
	dnsmasq-base bird2 frr kea-dhcp4-server kea-dhcp6-server radvd

# $(call slowly,what,how long,command) says what takes long, and that it goes on.
define slowly
	@echo "--- $(1): $(2)"; start=$$SECONDS; \
	( while sleep 30 >/dev/null 2>&1; do echo "    still $(1), $$((SECONDS - start)) s"; done ) & beat=$$!; \
	trap 'kill $$beat 2>/dev/null || true' EXIT; \
	$(3); \
	echo "    done in $$((SECONDS - start)) s"
endef

# $(call in_modules,modules,command) runs the command in each module, all of
# them even when one fails.
define in_modules
	@failed=; for module in $(1); do ( cd $$module && { $(2); } ) || failed="$$failed $$module"; done; \
	[[ -z $$failed ]] || { echo "failed in:$$failed" >&2; exit 1; }
endef

##@ Build

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {print "\n" substr($$0, 5)} \
	/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: build-daemons build-lab bin/cluster ## All programs, into bin/

.PHONY: build-daemons
build-daemons: ## The daemons
	@mkdir -p bin
	$(call slowly,building $(DAEMONS),about 2 minutes the first time,\
	for d in $(DAEMONS); do ( cd $$d; CGO_ENABLED=0 $(BUILD) -o ../bin/$$d . ); done)

.PHONY: build-lab
build-lab: ## The lab's program
	@mkdir -p bin
	$(call slowly,building the lab,about a minute the first time,\
	cd deploy; $(BUILD) -o ../bin/lab ./cmd/lab)

# The lab's programs run on this machine only, so they may link C, and share
# what was compiled for them.
bin/cluster: deploy/lab/cluster/go.mod deploy/lab/cluster/main.go
	@mkdir -p bin
	$(call slowly,building the API server from its module,6 to 7 minutes the first time,\
	cd deploy/lab/cluster; go build -trimpath -ldflags="-s -w" -o ../../../bin/cluster .)
	@touch bin/cluster

.PHONY: packages
packages: ## Install the Debian packages that tests and demo need; daemons among them are not started
	@missing=; for p in $(PACKAGES); do \
		[[ $$(dpkg-query -W -f '$${db:Status-Status}' $$p 2>/dev/null) == installed ]] || missing="$$missing $$p"; done; \
	[[ -z $$missing ]] || { \
		echo "--- installing Debian packages, about a minute:$$missing"; \
		export DEBIAN_FRONTEND=noninteractive; \
		policy=/usr/sbin/policy-rc.d; \
		[[ -e $$policy ]] || { trap 'rm -f '$$policy EXIT; printf '#!/bin/sh\nexit 101\n' >$$policy; chmod 755 $$policy; }; \
		apt-get update -qq; apt-get install -y -qq --no-install-recommends $$missing </dev/null >/dev/null; }

##@ Test

.PHONY: test
test: export VIPOD_REQUIRE_NETNS := 1
test: export VIPOD_REQUIRE_VM := 1
test: packages test-unit test-model test-netns test-vm test-e2e test-faults ## All tests; as root

.PHONY: test-unit
test-unit: ## Tests without privilege, fuzz seeds included
	@echo "--- unit tests: a few minutes the first time, seconds when nothing changed"
	$(call in_modules,$(OURS),go test -race -skip '^Test(Netns|VM|E2E|Faults|Model)' ./...)

# How many random schedules the models run.
SCHEDULES ?= 10000
# How many Services are planned.
SERVICES ?= 1000000

.PHONY: test-model
test-model: ## The ownership protocol under SCHEDULES random schedules; SERVICES planned
	@echo "--- $(SCHEDULES) random schedules of a whole cluster, $(SERVICES) Services planned: about 3 minutes"
	@cd elector && VIPOD_SCHEDULES=$(SCHEDULES) VIPOD_SERVICES=$(SERVICES) \
		go test -v -timeout 60m -run '^TestModel' ./internal/claim ./internal/plan

# $(call tests_named,prefix,flags) runs the tests of that name, in the packages
# that have some. -p 1 because they measure; -count=1 because a cached result
# says nothing about this kernel.
define tests_named
	$(call in_modules,$(OURS),\
	files=$$(go list -f '{{$$d := .Dir}}{{range .TestGoFiles}}{{$$d}}/{{.}} {{end}}{{range .XTestGoFiles}}{{$$d}}/{{.}} {{end}}' ./...) || exit 1; \
	packages=$$(grep -l '^func $(1)' $$files /dev/null | xargs -r -n 1 dirname | sort -u); \
	[[ -z $$packages ]] || go test -race -p 1 -count=1 $(2) -run '^$(1)' $$packages)
endef

.PHONY: test-netns
test-netns: ## Tests in network namespaces; as root
	@echo "--- tests in network namespaces"
	$(call tests_named,TestNetns,)

.PHONY: test-vm
test-vm: packages build-daemons ## Tests in a virtual machine, for what this kernel lacks
	@echo "--- tests in a virtual machine"
	$(call tests_named,TestVM,-timeout 20m)

.PHONY: test-e2e
test-e2e: build ## Tests of the real daemons in a lab; as root
	@echo "--- end-to-end tests in a lab"
	$(call tests_named,TestE2E,-v -timeout 40m)

.PHONY: test-faults
test-faults: build ## Faults done to a lab, watched from outside; FULL=1 for all of them; as root
	@echo "--- faults watched from outside: about 8 minutes, with FULL=1 an hour"
	@cd deploy && go test -count=1 -v -timeout 180m -run '^TestFaults' ./faults \
		-args $(if $(FULL),-full) $(if $(CASE),-case '$(CASE)')

.PHONY: bench bench-go
bench: packages build ## Measurements in a lab, into deploy/bench/RESULTS.md; ARGS=-help; as root
	@echo "--- measuring: about 30 minutes, on a machine that has nothing else to do"
	@cd deploy && go run ./bench $(ARGS)
bench-go: ## Benchmarks of single functions
	$(call in_modules,$(OURS),go test -run '^$$' -bench . -benchmem ./...)

.PHONY: demo
demo: packages build ## Three nodes, an API server, and VIPs that move; as root
	@cd deploy && go run ./demo

##@ Lint: verify-X checks, fix-X repairs

CHECKS := work deps fmt tidy lint

.PHONY: lint fix
lint: $(CHECKS:%=verify-%) verify-alone ## Every check
fix: $(CHECKS:%=fix-%) ## Every repair

TOOLS     := $(CURDIR)/.cache/tools
WORKSPACE := cd deploy/tools && go run ./workspace -root $(CURDIR)
LINTER    := $(TOOLS)/golangci-lint

.PHONY: verify-work fix-work
verify-work: ## go.work lists the modules of the repository
	@$(WORKSPACE) work
fix-work:
	@$(WORKSPACE) -fix work

.PHONY: verify-deps fix-deps
verify-deps: ## deps.txt names what each module's programs link
	@$(WORKSPACE) deps
fix-deps:
	@$(WORKSPACE) -fix deps

.PHONY: verify-fmt fix-fmt
verify-fmt: ## gofmt has nothing to say
	@out=$$(gofmt -l $(OURS)); [[ -z $$out ]] || { echo "not formatted:"; echo "$$out"; exit 1; } >&2
fix-fmt:
	@gofmt -w $(OURS)

.PHONY: verify-tidy fix-tidy
verify-tidy: ## go.mod and go.sum are tidy
	$(call in_modules,$(MODULES),go mod tidy -diff)
fix-tidy:
	$(call in_modules,$(MODULES),go mod tidy)

.PHONY: verify-lint fix-lint
verify-lint: $(LINTER) ## The linters of .golangci.yml
	$(call in_modules,$(OURS),echo "lint $$module"; $(LINTER) run --config $(CURDIR)/.golangci.yml ./...)
fix-lint: $(LINTER)
	$(call in_modules,$(OURS),$(LINTER) run --fix --config $(CURDIR)/.golangci.yml ./...)

$(LINTER): deploy/tools/go.mod
	@mkdir -p $(TOOLS)
	$(call slowly,building golangci-lint from its module,5 minutes the first time,\
	cd deploy/tools; CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o $(LINTER) \
		github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
	@touch $(LINTER)

.PHONY: verify-alone
verify-alone: ## Each module builds by its own go.mod
	$(call in_modules,$(OURS),go build -o /dev/null ./...)

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin .cache
