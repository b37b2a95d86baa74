# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Virtual environments, each from its lock. ansible-core 2.19 runs on Python 3.11 to 3.13, 2.21 on 3.12 to 3.14.
MINORS_2.19 := 11 12 13
MINORS_2.21 := 12 13 14
MINORS_rack := 11 12 13
MINORS_eda := 11 12 13
GIVEN_2.19 := $(PYTHON311)
GIVEN_2.21 := $(PYTHON312)
GIVEN_rack := $(PYTHON311)
GIVEN_eda := $(PYTHON311)
LOCK_2.19 := requirements/test-2.19.lock
LOCK_2.21 := requirements/test-2.21.lock
LOCK_rack := requirements/rack.lock
LOCK_eda := requirements/eda.lock

define NO_PYTHON
no Python 3.$(firstword $(MINORS_$*)) or newer found for '$*'.
  Get one:  sudo apt-get install python3 python3-venv   (Debian 12 has 3.11, Debian 13 has 3.13)
       or:  curl -fsSL https://pyenv.run | sh && ~/.pyenv/bin/pyenv install 3.$(firstword $(MINORS_$*))
  Then say where it is, if it is not on PATH:  make PYTHON3$(firstword $(MINORS_$*))=/path/to/python3.$(firstword $(MINORS_$*)) ...
  Or test one ansible-core alone:  make test PAIR=2.19
endef
export NO_PYTHON

.PHONY: setup setup-link setup-system setup-awx lock $(addprefix setup-,2.19 2.21 rack eda)
setup: setup-link setup-system $(addprefix setup-,$(PAIRS)) setup-rack setup-eda setup-awx ## Virtual environments from the lock files, and Debian packages (root)

setup-link:
	@mkdir -p $(dir $(SELF)) && ln -sfnr $(ROOT) $(SELF)

# What the tests start besides Python. 'make test-fast' does without; 'make test' begins with it.
setup-system:
	@python3 make/system_packages.py requirements/system.txt

setup-2.19 setup-2.21 setup-rack setup-eda: setup-%: setup-link
	@python='$(GIVEN_$*)'; \
	[ -n "$$python" ] || python=$$(make/find-python.sh $(MINORS_$*)) || { printf '%s\n' "$$NO_PYTHON" >&2; exit 1; }; \
	make/venv.sh build/venv/$* $(LOCK_$*) "$$python"

# awx.awx alone, through whose modules the role awx works, out of the package 'ansible' that requirements/bench.lock names
setup-awx: setup-$(MAIN)
	@$(VENV)/bin/python make/others_collections.py requirements/bench.lock $(BUILD)/awx/collections awx.awx

# Newest versions that the .in files allow, written down exactly. Environments are made anew, so nothing old stays.
lock: ## Renew the lock files (LOCKS="2.19 2.21 rack eda")
	@for name in $(or $(LOCKS),2.19 2.21 rack eda); do $(MAKE) lock-$$name || exit 1; done

lock-2.19 lock-2.21 lock-rack lock-eda: lock-%:
	@python='$(GIVEN_$*)'; \
	[ -n "$$python" ] || python=$$(make/find-python.sh $(MINORS_$*)) || { printf '%s\n' "$$NO_PYTHON" >&2; exit 1; }; \
	in=$(LOCK_$*); in=$${in%.lock}.in; new=build/venv/.new-$*; \
	rm -rf $$new && "$$python" -m venv $$new && $$new/bin/python -m pip install -q -r $$in && \
	{ echo "# Exact versions of $$in, written by 'make lock'."; $$new/bin/python -m pip freeze; } > $(LOCK_$*); \
	status=$$?; rm -rf $$new; exit $$status
