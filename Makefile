# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# What a person types. The work is in make/*.mk; 'make help' lists the targets.
SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.SUFFIXES:

# PAIR=2.19 or PAIR=2.21 restricts everything to that ansible-core; without it sanity and units run on both.
PAIR ?=
PAIRS := $(if $(PAIR),$(PAIR),2.19 2.21)
ifneq ($(filter-out 2.19 2.21,$(PAIR)),)
$(error PAIR=$(PAIR) is not known: say 2.19 or 2.21)
endif
# The pair on which everything else runs
MAIN := $(firstword $(PAIRS))

# Python keeps what it has compiled, whatever the machine is set to: tests read the same hundreds of files in each process.
export PYTHONDONTWRITEBYTECODE :=

# In a container too: what make starts works on racks that it made, and their ledgers may go with them.
export GPUFLEET_LEDGER_MAY_BE_LOST ?= yes

ROOT := $(CURDIR)
BUILD := $(ROOT)/build
VENV := $(BUILD)/venv/$(MAIN)
COLLECTIONS := $(BUILD)/collections
# A collection sees itself through this link, without being installed
SELF := $(COLLECTIONS)/ansible_collections/gpufleet/baremetal

include make/setup.mk
include make/quality.mk
include make/tests.mk
include make/mutants.mk
include make/fuzz.mk
include make/trees.mk
include make/verdicts.mk
include make/contract.mk
include make/release.mk
include make/ee.mk
-include make/rack.mk
include make/demo.mk
include make/new-driver.mk

.PHONY: help clean
help: ## Show the targets
	@echo "gpufleet.baremetal"
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1|/' | awk -F'|' '{ printf "  make %-14s %s\n", $$1, $$2 }'
	@echo "Variables: PAIR=2.19|2.21 (one ansible-core only), PYTHON311=, PYTHON312= (interpreters)"

clean: ## Remove what was built and tested, but keep the virtual environments
	find $(BUILD) -mindepth 1 -maxdepth 1 ! -name venv ! -name home ! -name collections -exec rm -rf {} +
	rm -rf tests/output .ansible
