# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The artifact: what a user installs, and proof that it works where nothing else of the checkout is.
VERSION := $(shell sed -n 's/^version: *//p' galaxy.yml)
ARTIFACT := $(BUILD)/dist/gpufleet-baremetal-$(VERSION).tar.gz
INSTALLED := $(BUILD)/installed
PRUNED := $(INSTALLED)/ansible_collections/gpufleet/baremetal

.PHONY: build artifact importer bench bench-gates bench-outliers docs docs-site
build: tree ## Build the collection's artifact into build/dist/
	cd $(TREE) && $(TOOLS) ansible-galaxy collection build --force --output-path $(BUILD)/dist .

artifact: build
	rm -rf $(INSTALLED)
	$(TOOLS) ANSIBLE_COLLECTIONS_PATH=$(INSTALLED) ansible-galaxy collection install --offline --no-deps -p $(INSTALLED) $(ARTIFACT)
	cd $(PRUNED) && rm -rf inventory docs tests extensions
	$(TOOLS) ANSIBLE_COLLECTIONS_PATH=$(INSTALLED) python make/smoke.py $(PRUNED)
	cd $(INSTALLED) && $(TOOLS) ansible-builder introspect --sanitize $(INSTALLED) >/dev/null

importer: build
	cd $(BUILD)/dist && $(TOOLS) GALAXY_IMPORTER_CONFIG=$(ROOT)/make/galaxy-importer.cfg \
		python -m galaxy_importer.main $(ARTIFACT)

docs: tree ## Write the reference of all plugins and roles to build/docs/
	rm -rf $(BUILD)/docs && mkdir -p $(BUILD)/docs
	cd $(TREE) && $(TOOLS) antsibull-docs collection --fail-on-error --use-current --squash-hierarchy --dest-dir $(BUILD)/docs gpufleet.baremetal

# make test says THEME=basic, for furo writes the list of all pages anew for each page, which is two fifths of the CPU.
THEME ?= furo
docs-site: docs ## Pages, roles and reference as a site in build/site/html, with every link within it followed
	@$(VENV)/bin/python make/docs_site.py pages $(BUILD)/site $(BUILD)/docs
	@$(VENV)/bin/sphinx-build -q -W --keep-going -b html -D html_theme=$(THEME) $(BUILD)/site/source $(BUILD)/site/html
	@$(VENV)/bin/python make/docs_site.py links $(BUILD)/site

bench: setup-$(MAIN) bench-collections ## Speed against community.general, as a table and as JSON in build/bench/
	PYTHONPATH=$(COLLECTIONS) PATH="$(VENV)/bin:$$PATH" $(VENV)/bin/python tests/bench/bench.py
	PYTHONPATH=$(COLLECTIONS) PATH="$(VENV)/bin:$$PATH" $(VENV)/bin/python tests/bench/ledgers.py
	PYTHONPATH=$(COLLECTIONS) PATH="$(VENV)/bin:$$PATH" $(VENV)/bin/python tests/bench/waits.py
	PYTHONPATH=$(COLLECTIONS) PATH="$(VENV)/bin:$$PATH" $(VENV)/bin/python tests/bench/memory.py
	PYTHONPATH=$(COLLECTIONS) PATH="$(VENV)/bin:$$PATH" $(VENV)/bin/python tests/bench/schedulers.py

bench-gates: setup-link setup-$(MAIN) ## What gates cost a node beyond their tools, held against their bounds
	PYTHONPATH=$(COLLECTIONS) $(VENV)/bin/python tests/bench/gates.py

bench-outliers: setup-link setup-$(MAIN) ## Slow nodes accepted and healthy ones rejected by gate_outliers and by two other rules (WRITE=1)
	PYTHONPATH=$(COLLECTIONS) $(VENV)/bin/python tests/bench/outliers.py $(if $(WRITE),--write)

# community.general alone, out of the package 'ansible' that requirements/bench.lock names
bench-collections: setup-$(MAIN)
	@$(VENV)/bin/python make/others_collections.py requirements/bench.lock $(BUILD)/bench/collections community.general
