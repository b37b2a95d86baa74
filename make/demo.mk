# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# From nothing to a summary: environments, rack, day 0, a fault, day 2. A rack of an earlier run is started anew.
.PHONY: demo
demo: setup-link setup-$(MAIN) setup-rack ## Day 0 and day 2 on the built-in rack (root)
	@[ "$$(id -u)" = 0 ] || { echo "The rack makes network namespaces and mounts, and so needs root. Run:  sudo make demo" >&2; exit 1; }
	@ANSIBLE_STDOUT_CALLBACK=gpufleet.baremetal.fleet_progress $(MAKE) -s rack-down rack-up
	@mkdir -p $(BUILD)/demo && PATH="$(VENV)/bin:$$PATH" ANSIBLE_COLLECTIONS_PATH=$(COLLECTIONS) \
		$(VENV)/bin/python make/demo.py $(RACK_DIR)
