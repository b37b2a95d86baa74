# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Would a test notice? Part of no other target: it takes as long as all its tests, once for each broken line.
.PHONY: mutants
mutants: setup-link setup-$(MAIN) ## Break one line after another and see whether a test notices (ONLY=, NEW=1, JOBS=2, WRITE=1, ANEW=1)
	@PATH="$(VENV)/bin:$$PATH" $(VENV)/bin/python make/mutants.py --jobs $(JOBS) --only "$(ONLY)" \
		$(if $(NEW),--new) $(if $(WRITE),--write) $(if $(ANEW),--anew)
