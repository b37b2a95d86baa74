# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# What would be done with machines of which there are recorded Redfish trees: docs/how-to/try-a-new-model.md
TREES ?=
FORMAT ?= text
SYSTEM ?=
.PHONY: trees
trees: setup-link setup-$(MAIN) ## What is known of recorded Redfish trees: TREES=folder [FORMAT=json] [SYSTEM=id]
	@test -n "$(TREES)" || { echo "usage: make trees TREES=folder [FORMAT=json] [SYSTEM=id]" >&2; exit 2; }
	@PYTHONPATH=$(COLLECTIONS) $(VENV)/bin/python make/trees.py "$(TREES)" --format "$(FORMAT)" --system "$(SYSTEM)"
