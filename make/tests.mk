# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Tests. What needs the rack is marked so; everything else runs anywhere, as anybody.
PYTEST = PYTHONPATH=$(COLLECTIONS) ANSIBLE_COLLECTIONS_PATH=$(COLLECTIONS) ANSIBLE_HOME=$(BUILD)/home-$*/.ansible \
	PATH="$(BUILD)/venv/$*/bin:$$PATH" $(BUILD)/venv/$*/bin/python -m pytest --junit-xml=build/junit/$@.xml
# Each worker reads all tests first, fourteen seconds of CPU. Contract tests (of which most talk to a server, or wait for
# a clock of their own) wait most of their time, so that there are more at once than a small machine has cores.
JOBS ?= 2
CONTRACT_JOBS ?= 4
# Each worker reads all tests first, fifteen seconds of CPU; what waits most is no part of the fast ones.
FAST_JOBS ?= 2

.PHONY: test test-fast units molecule test-rack e2e
# All steps run, whatever fails; the table at the end says what did. The rack's lane waits for other programs most of its
# time, so the other steps run beside it. A third lane would find nothing idle: it was tried, both cores were busy to the
# end, and its steps came to their limit. Nothing is shared between the two but the environments: the rack has its own
# ports, names and folders, tests that start services choose free ports and new folders, and molecule has its own copy.
# Each lane begins by installing what only it needs. The rack comes up with all that its tests ask for. Whichever lane has
# come to its end takes the next step of those for either, so that both are at work until the end. What make/quality.mk
# asks of one pair alone is not asked twice.
FIRST := setup-system setup-$(MAIN) setup-awx
OTHERS := $(filter-out $(MAIN),$(PAIRS))
RACK_LANE := setup-rack rack-up test-rack e2e rack-down molecule
BESIDE := $(OTHERS:%=setup-%) lint-ruff lint-mypy lint-yaml lint-shell lint-ansible lint-docs docs-site lint-changelog lint-licences \
	units-$(MAIN) artifact importer
EITHER := $(OTHERS:%=sanity-%) $(PAIRS:%=plain-units-%) $(OTHERS:%=units-%) sanity-$(MAIN)

test: ## Everything, with a closing table (PAIR=2.19 for that ansible-core alone)
	@rm -rf build/junit && mkdir -p build/junit
	@MAAS=true LINTERS=once THEME=basic exec python3 make/steps.py --main $(MAIN) --pairs "$(PAIRS)" --first "$(FIRST)" --lane "$(RACK_LANE)" --either "$(EITHER)" $(BESIDE)

test-fast: setup-link setup-$(MAIN) ## Before each commit: ruff, mypy, yamllint, unit and contract tests (2 minutes)
	@mkdir -p build/junit
	@exec python3 make/steps.py --main $(MAIN) --pairs $(MAIN) lint-ruff lint-mypy lint-yaml fast-$(MAIN)

.PHONY: long-tests
long-tests: ## Write down which tests make test-fast leaves out, as the last make test has measured them
	@python3 make/long_tests.py tests/suite/long.txt $(wildcard build/junit/fast-$(MAIN).xml build/junit/units-$(MAIN).xml build/junit/plain-units-$(MAIN).xml)

fast-2.19 fast-2.21: fast-%: setup-%
	GPUFLEET_FUZZ=brief $(PYTEST) -q -n $(FAST_JOBS) --dist loadgroup -m "not rack and not slow and not long and not programs" \
		tests/unit tests/contract tests/tree

units: $(addprefix units-,$(PAIRS)) $(addprefix ansible-units-,$(PAIRS)) ## Unit and contract tests, on each ansible-core
# The contract tests: all of them on the main pair, which also tries the most examples of what is looked for at random.
# The other pair runs those that go through Ansible itself. All workers read all tests: in a new checkout each would
# compile all of them, at once, for twenty seconds of CPU. One that goes before does it for all; what it finds wrong, they
# find again and tell.
FUZZ = $(if $(filter $(MAIN),$*),,GPUFLEET_FUZZ=brief)
units-$(MAIN): setup-eda
units-2.19 units-2.21: units-%: setup-%
	@mkdir -p build/log
	@$(PYTEST) -qq --collect-only -m "$(CHOSEN)" $(CONTRACT) >$(READ) 2>&1 || true
	$(FUZZ) $(PYTEST) -q -n $(if $(filter $(MAIN),$*),$(CONTRACT_JOBS),$(JOBS)) --dist loadgroup -m "$(CHOSEN)" $(CONTRACT)
CHOSEN = not rack$(if $(filter $(MAIN),$*),, and each_core)
CONTRACT = tests/contract $(if $(filter $(MAIN),$*),tests/tree)

# The unit tests, all of them, as ansible-test runs them: in the collection's own name space, with its settings of pytest
ansible-units-2.19 ansible-units-2.21: ansible-units-%: setup-% setup-rack
	$(FUZZ) build/venv/$*/bin/python make/run_ansible_test.py build $* units --color no --num-workers $(JOBS)

# The same tests, as make test runs them. ansible-test forks for each test, which is half of its CPU. Here it reads all of
# them, so that each ansible-core's loader of collections imports them and what they test; then pytest runs them.
READ = build/log/$@-read.log
plain-units-2.19 plain-units-2.21: plain-units-%: setup-% setup-rack
	@mkdir -p build/log
	build/venv/$*/bin/python make/run_ansible_test.py build $* units --color no --num-workers 1 --collect-only >$(READ) 2>&1 \
		|| { cat $(READ); exit 1; }
	@tail -n 1 $(READ)
	@$(PYTEST) -qq --collect-only tests/unit >>$(READ) 2>&1 || true
	$(FUZZ) $(PYTEST) -q -n $(JOBS) tests/unit

# On the rack, which must be up: make rack-up
test-rack: rack-on-$(MAIN) ## Tests on the built-in rack
e2e: e2e-on-$(MAIN) ## Day 0 and day 2 from end to end on the built-in rack
rack-on-2.19 rack-on-2.21: rack-on-%: setup-%
	$(PYTEST) -v -m rack tests/rack
e2e-on-2.19 e2e-on-2.21: e2e-on-%: setup-%
	$(PYTEST) -v tests/e2e

# The same playbooks with each provisioner, on the rack as well; part of no other target. What it cannot run is a failure.
.PHONY: e2e-drivers
e2e-drivers: setup-link e2e-drivers-on-$(MAIN) ## Day 0 and day 2 on the built-in rack with each provisioner (root; DRIVER=xcat for one)
e2e-drivers-on-2.19 e2e-drivers-on-2.21: e2e-drivers-on-%: setup-%
	CI=true $(PYTEST) -v tests/e2e_drivers $(if $(DRIVER),-k "$(DRIVER)")

# It writes beside its scenarios, which the sanity tests of another lane would find.
molecule: TREE_ROOT := $(BUILD)/tree-molecule
molecule: HOME_DIR := $(BUILD)/home-molecule
molecule: tree setup-rack ## Molecule scenarios of the roles, on the rack
	cd $(TREE) && $(TOOLS) GPUFLEET_RACK_DIR=$(RACK_DIR) GPUFLEET_RACK_VENV=$(BUILD)/venv/rack molecule test --all --report
