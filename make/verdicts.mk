# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# What the gates say of recorded outputs: docs/how-to/judge-recorded-outputs.md
DATA ?=
SKU ?=
FORMAT ?= text
.PHONY: verdicts
verdicts: setup-link setup-$(MAIN) ## What the gates say of recorded outputs: DATA=folder [SKU=name] [FORMAT=json] [WRITE=1]
	@test -n "$(DATA)" || { echo "usage: make verdicts DATA=folder [SKU=name] [FORMAT=json] [WRITE=1]" >&2; exit 2; }
	@PYTHONPATH=$(COLLECTIONS) $(VENV)/bin/python make/verdicts.py "$(DATA)" --sku "$(SKU)" --format "$(FORMAT)" $(if $(WRITE),--write)
