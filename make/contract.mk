# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Does this driver keep its contract with a site's own provisioner, or its scheduler? docs/how-to/certify-your-provisioner.md
# and docs/how-to/certify-your-scheduler.md
DRIVER ?=
ENDPOINT ?=
TAG ?=
PREFIX ?=
NAMED ?=
IMAGE ?=
BOOT ?=
OPTIONS ?=
TIMEOUT ?= 3600
INTERVAL ?= 10
REPORT ?= build/contract
CONTRACT_USAGE = make contract DRIVER=bcm|ironic|maas|pxe|warewulf|xcat ENDPOINT=URL TAG=tag|PREFIX=names [IMAGE=file.yml] \
[BOOT=command] [NAMED=name,name] [ERASE=1] [OPTIONS=file.yml] [TIMEOUT=s] [INTERVAL=s] [REPORT=folder], or \
make contract DRIVER=slurm|slurmrestd|kubernetes ENDPOINT=slurm.conf|URL PREFIX=names [TIMEOUT=s] [INTERVAL=s] [REPORT=folder]
CONTRACT_SCHEDULERS = slurm slurmrestd kubernetes
.PHONY: contract
contract: setup-link setup-$(MAIN) ## Certify a site's own provisioner or scheduler, on the machines of one tag or prefix alone: DRIVER= ENDPOINT= TAG=|PREFIX=
	@test -n "$(DRIVER)" && test -n "$(ENDPOINT)" || { echo '$(CONTRACT_USAGE)' >&2; exit 2; }
ifneq ($(filter $(CONTRACT_SCHEDULERS),$(DRIVER)),)
	@PYTHONPATH=$(COLLECTIONS) PATH="$(VENV)/bin:$$PATH" $(VENV)/bin/python make/contract_scheduler.py "$(DRIVER)" \
		"$(ENDPOINT)" --prefix "$(PREFIX)" --timeout "$(TIMEOUT)" --interval "$(INTERVAL)" --report "$(REPORT)"
else
	@PYTHONPATH=$(COLLECTIONS) PATH="$(VENV)/bin:$$PATH" $(VENV)/bin/python make/contract.py "$(DRIVER)" "$(ENDPOINT)" \
		--tag "$(TAG)" --prefix "$(PREFIX)" --named "$(NAMED)" --image "$(IMAGE)" --boot "$(BOOT)" \
		--options "$(OPTIONS)" --timeout "$(TIMEOUT)" --interval "$(INTERVAL)" --report "$(REPORT)" $(if $(ERASE),--erase)
endif
