# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# A driver to come: docs/how-to/write-a-PORT-driver.md tells the way.
PORT ?=
NAME ?=

.PHONY: new-driver try-driver
new-driver: ## Begin a driver: PORT=bmc|provisioner|scheduler|gate NAME=..., or take it back (REMOVE=1)
	@test -n "$(PORT)" && test -n "$(NAME)" || { echo "make new-driver PORT=bmc|provisioner|scheduler|gate NAME=..."; exit 2; }
	@python3 make/new_driver.py "$(PORT)" "$(NAME)" $(if $(REMOVE),--remove)

# First what is missing, a line each; when nothing is, the port's contract suite with this driver.
try-driver: setup-$(MAIN) ## What a driver still lacks, then its contract suite: PORT=... NAME=...
	@test -n "$(PORT)" && test -n "$(NAME)" || { echo "make try-driver PORT=... NAME=..."; exit 2; }
	@PYTHONPATH=build/collections $(VENV)/bin/python tests/contract/newcomers.py $(PORT) $(NAME)
	@PATH="$(VENV)/bin:$$PATH" $(VENV)/bin/python -m pytest -q tests/contract/$(PORT) -k "$(NAME)"
