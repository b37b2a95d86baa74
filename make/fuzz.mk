# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# What make test asks of a few hundred mutations, asked of many thousands. GPUFLEET_RECORDED_DATA adds recorded outputs.
# So many times as many.
TIMES ?= 50
FUZZERS ?= $(wildcard tests/unit/gate/test_fuzz*.py) tests/contract/bmc/test_fuzz.py
.PHONY: fuzz
fuzz: setup-link fuzz-$(MAIN) ## Mutate gate documents, kernel logs and BMC answers for long (TIMES=50, FUZZERS=files)
fuzz-2.19 fuzz-2.21: fuzz-%: setup-%
	GPUFLEET_FUZZ=$(TIMES) $(PYTEST) --timeout 0 -q -n $(JOBS) $(FUZZERS)

# Any playbook in any order on a rack of which half is somebody else's; the rack must be up: make rack-up
STEPS ?= 60
SEED ?= $(shell od -An -N3 -tu4 /dev/urandom | tr -d ' ')
.PHONY: strange
strange: setup-link strange-$(MAIN) ## Run playbooks in any order on a rack that is not ours alone (STEPS=60, SEED=)
strange-2.19 strange-2.21: strange-%: setup-%
	GPUFLEET_STRANGE_STEPS=$(STEPS) GPUFLEET_STRANGE_SEED=$(SEED) $(PYTEST) --timeout 0 -v -s tests/e2e/test_strange_site.py

# Each service of the rack away at each stage; the rack must be up: make rack-up
MINUTES ?= 600
.PHONY: outages
outages: setup-link setup-$(MAIN) ## Take each service of the rack away at each stage (MINUTES=, ONLY=, NEEDED=1, ANEW=1, WRITE=1)
	@PYTHONPATH=$(COLLECTIONS):tests ANSIBLE_COLLECTIONS_PATH=$(COLLECTIONS) ANSIBLE_HOME=$(BUILD)/home-$(MAIN)/.ansible \
		PATH="$(VENV)/bin:$$PATH" $(VENV)/bin/python tests/e2e/outage_matrix.py --minutes $(MINUTES) --only "$(ONLY)" \
		$(if $(NEEDED),--needed) $(if $(ANEW),--anew) $(if $(WRITE),--write)
