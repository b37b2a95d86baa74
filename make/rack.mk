# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The built-in rack. MAAS=true adds the MAAS stand-in; RACK_DIR= puts the rack elsewhere; KEEP=true keeps its memory.
MAAS ?= false
KEEP ?= false
RACK_DIR ?= /var/lib/gpufleet-rack
RACK_VARS = -e virtual_rack_dir=$(RACK_DIR) -e virtual_rack_venv=$(BUILD)/venv/rack -e '{"virtual_rack_maas": $(MAAS), "virtual_rack_keep_state": $(KEEP)}'
RACK_PLAY = ANSIBLE_COLLECTIONS_PATH=$(COLLECTIONS) ANSIBLE_LOCALHOST_WARNING=false ANSIBLE_INVENTORY_UNPARSED_WARNING=false \
  $(VENV)/bin/ansible-playbook playbooks/rack.yml $(RACK_VARS) $(RACK_ARGS)

RACK_FAULT := roles/virtual_rack/files/machines/fault.py

.PHONY: rack-up rack-status rack-empty rack-down rack-fault
rack-up: setup-link setup-$(MAIN) setup-rack ## Start the built-in rack (root; MAAS=true adds MAAS)
	@$(RACK_PLAY) -e virtual_rack_state=started

rack-status: ## Show what of the rack runs
	@$(RACK_PLAY) -e virtual_rack_state=status

rack-empty: ## Bring the running rack back to how it was when it was new
	@$(RACK_PLAY) -e virtual_rack_state=emptied

rack-down: ## Stop the rack and remove all of it but its keys, images and logs
	@$(RACK_PLAY) -e virtual_rack_state=stopped

rack-fault: ## Break a node: NODE=gpu003 FAULT=xid79 [WITH="gpu=2"]; FAULT=none lifts all, FAULT=list shows them
	@if [ "$(FAULT)" = list ]; then exec $(BUILD)/venv/rack/bin/python $(RACK_FAULT) --list; fi; \
	if [ -z "$(NODE)" ] || [ -z "$(FAULT)" ]; then echo "usage: make rack-fault NODE=gpu003 FAULT=xid79" >&2; exit 2; fi; \
	exec $(BUILD)/venv/rack/bin/python $(RACK_FAULT) --config $(RACK_DIR)/rack.json $(NODE) $(FAULT) $(WITH)
