# A thin front for scripts/: every target installs what it lacks, fetches llama.cpp, configures and builds as needed.
#
#   MODEL=<file>  ARGS=<arguments>   for run and bench
#   JOBS=<n>                         compilers and tests at once
#   BMOE_LLAMA_CPP_DIR=<folder>      another llama.cpp checkout
#   CMAKE_ARGS=<arguments>           further arguments for configuring

JOBS ?= $(shell nproc)
export JOBS
ifdef BMOE_LLAMA_CPP_DIR
export BMOE_LLAMA_CPP_DIR
endif
export CMAKE_ARGS

# ARGS comes last: of an option given twice the last counts.
run_args = -m "$(or $(MODEL),models/demo-moe.gguf)" $(if $(MODEL),,--moe-stream --cache-mb 4) \
    -n 120 -p "And the king said unto" $(ARGS)

.DEFAULT_GOAL := help
.PHONY: help run build test sanitize lint format bench tables clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 16
	@sed -n 's/^#   /  /p' Makefile

run: ## generate text with the demo model, or with MODEL=<file.gguf> and ARGS="..."
	@scripts/build.sh release bmoe-cli >&2
	@build/release/bin/bmoe-cli $(run_args)

build: ## everything, optimised, in build/release
	@scripts/build.sh release

test: ## all tests
	@scripts/test.sh release

sanitize: ## the tests that need no language model, under the address, undefined behaviour and thread sanitizers
	@scripts/test.sh asan tsan

lint: ## formatting, warnings, clang-tidy, scripts
	@scripts/lint.sh

format: ## format the C++ files in place
	@scripts/setup.sh lint
	@clang-format -i $$(scripts/sources.sh)

bench: ## micro-benchmarks, then bmoe-bench on the demo model, or on MODEL=<file.gguf> with ARGS="--cells ..."
	@scripts/bench.sh "$(MODEL)" $(ARGS)

tables: ## docs/tables again, from the measurements in docs/data
	@scripts/bench-tables.sh

clean: ## remove build/; llama.cpp and ccache's objects stay
	rm -rf build
