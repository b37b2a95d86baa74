# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Does this driver keep its contract with a site's own provisioner? docs/how-to/certify-your-provisioner.md
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
[BOOT=command] [NAMED=name,name] [ERASE=1] [OPTIONS=file.yml] [TIMEOUT=s] [INTERVAL=s] [REPORT=folder]
.PHONY: contract
contract: setup-link setup-$(MAIN) ## Certify a site's own provisioner, on the machines of one tag or prefix alone: DRIVER= ENDPOINT= TAG=|PREFIX=
	@test -n "$(DRIVER)" && test -n "$(ENDPOINT)" || { echo '$(CONTRACT_USAGE)' >&2; exit 2; }
	@PYTHONPATH=$(COLLECTIONS) PATH="$(VENV)/bin:$$PATH" $(VENV)/bin/python make/contract.py "$(DRIVER)" "$(ENDPOINT)" \
		--tag "$(TAG)" --prefix "$(PREFIX)" --named "$(NAMED)" --image "$(IMAGE)" --boot "$(BOOT)" \
		--options "$(OPTIONS)" --timeout "$(TIMEOUT)" --interval "$(INTERVAL)" --report "$(REPORT)" $(if $(ERASE),--erase)
