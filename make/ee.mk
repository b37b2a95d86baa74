# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The execution environment's lists, installed where nothing else is: what an image of them would have. Its ansible-core
# is 2.21, whatever the pair. WRITE=1 writes down what is in it.
EE := $(BUILD)/ee
EE_PYTHON = python='$(PYTHON312)'; [ -n "$$python" ] || python=$$(make/find-python.sh 12 13 14) \
	|| { echo "no Python 3.12 or newer: make PYTHON312=... $@" >&2; exit 1; }

.PHONY: ee ee-image e2e-ee
ee: setup-link build ## Install what the execution environment's lists name, and nothing else, in build/ee/venv (WRITE=1)
	@$(VENV)/bin/python make/execution_environment.py lists $(EE) $(ARTIFACT)
	@$(EE_PYTHON); make/venv.sh $(EE)/venv $(EE)/requirements.txt "$$python"
	@$(VENV)/bin/python make/execution_environment.py contents $(EE) $(if $(WRITE),docs/reference/execution-environment.md,$(EE)/contents.md)

# Each step of the image's build as ansible-builder writes it, on this machine in the place of the base image, which is in a
# registry; then the image is started, as its user, and imports each plugin. Fetches the newest of each package.
ee-image: setup-link build ## Play the build of the execution environment's image, and start it (root; no engine, no registry)
	@$(VENV)/bin/python make/execution_environment.py lists $(EE) $(ARTIFACT)
	@$(EE_PYTHON); $(VENV)/bin/python make/ee_image.py $(EE)/context "$$python" tests/contract/awx/import_plugins.py

# Part of no other target: it fetches the newest of each package. What it cannot run is a failure.
e2e-ee: ee e2e-ee-on-$(MAIN) ## Day 0 and day 2 on the built-in rack out of the execution environment's lists alone (root)
e2e-ee-on-2.19 e2e-ee-on-2.21: e2e-ee-on-%: setup-%
	CI=true GPUFLEET_EE_DIR=$(EE) $(PYTEST) -v tests/e2e_ee
