# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Everything that reads the code without running it. Tools that look at each file they find get a clean copy.
TREE_ROOT := $(BUILD)/tree-$(MAIN)
TREE = $(TREE_ROOT)/ansible_collections/gpufleet/baremetal
HOME_DIR := $(BUILD)/home-$(MAIN)
# The user's own Ansible settings and home directory stay out of it
TOOLS = env -u ANSIBLE_CONFIG PATH="$(VENV)/bin:$$PATH" HOME="$(HOME_DIR)" LC_ALL=C.UTF-8 NO_COLOR=1 \
	ANSIBLE_COLLECTIONS_PATH="$(TREE_ROOT)" ANSIBLE_HOME="$(HOME_DIR)/.ansible"
SHELL_FILES = $(shell git ls-files --cached --others --exclude-standard '*.sh' .ci/run)

.PHONY: lint lint-ruff lint-mypy lint-yaml lint-shell lint-ansible lint-docs lint-changelog lint-licences tree sanity messages role-variables awx-page
lint: lint-ruff lint-mypy lint-yaml lint-shell lint-ansible lint-docs lint-changelog lint-licences ## All linters

lint-ruff: setup-$(MAIN)
	$(VENV)/bin/ruff check .

# Tests are asked for calls of what is called otherwise by now. They feed wrong types on purpose, and stand-ins of servers
# are loosely typed, so that the rest of what could be said of them would say little.
OF_TESTS := arg-type assignment attr-defined call-overload dict-item func-returns-value index list-item misc no-untyped-def \
	operator override return-value union-attr var-annotated
lint-mypy: setup-$(MAIN)
	$(VENV)/bin/mypy -p ansible_collections.gpufleet.baremetal.plugins
	cd make && $(VENV)/bin/mypy --config-file ../pyproject.toml .
	$(VENV)/bin/mypy $(OF_TESTS:%=--disable-error-code %) tests

lint-yaml: setup-$(MAIN)
	$(VENV)/bin/yamllint --strict .

# 'make setup-system' installs it. Where nobody could, it is left out; in CI that is a failure.
lint-shell:
	@if command -v shellcheck >/dev/null; then shellcheck $(SHELL_FILES); \
	else echo "shellcheck is not installed: not run"; case "$$CI" in true|1) exit 1;; esac; fi

tree: setup-$(MAIN)
	@mkdir -p $(HOME_DIR) && $(VENV)/bin/python make/tree.py $(TREE_ROOT) >/dev/null

lint-ansible: tree
	cd $(TREE) && $(TOOLS) ansible-lint --profile production --strict --offline

# What an argument spec or a module says in broken markup (O(, M(short_name)) docs-site prints as an error in the page, and
# goes on: this one ends with it.
lint-docs: tree
	cd $(TREE) && $(TOOLS) antsibull-docs lint-collection-docs --plugin-docs --skip-rstcheck .

# tests/tree/ asks whether the page is what this writes.
messages: setup-link setup-$(MAIN) ## Write docs/reference/troubleshooting.md anew from what the code raises
	@PYTHONPATH=build/collections $(VENV)/bin/python -m ansible_collections.gpufleet.baremetal.tests.tree.messages .

role-variables: setup-link setup-$(MAIN) ## Write anew which host variables each role reads, in its argument specs and its README
	@PYTHONPATH=build/collections $(VENV)/bin/python -m ansible_collections.gpufleet.baremetal.tests.tree.role_variables .

awx-page: setup-link setup-$(MAIN) ## Write docs/reference/awx.md anew from the tables of the role awx
	@PYTHONPATH=build/collections $(VENV)/bin/python -m ansible_collections.gpufleet.baremetal.tests.tree.awx_page .

lint-changelog: tree
	cd $(TREE) && $(TOOLS) antsibull-changelog lint

lint-licences: tree
	cd $(TREE) && $(TOOLS) reuse lint --quiet || { $(TOOLS) reuse lint; exit 1; }

# ansible-test's linters import nothing of ansible-core, and their rules are the same on both pairs; what differs is the
# linter's own version, and the newer one finds more. So make test, which says LINTERS=once, leaves them to the newest
# pair: pylint alone is half of what sanity costs. 'make sanity' runs all of them on each.
LINTERS ?=
NEWEST := $(lastword $(PAIRS))
LEFT_OUT = $(if $(filter once,$(LINTERS)),$(if $(filter $(NEWEST),$*),,pep8 pylint shellcheck yamllint))
sanity: $(addprefix sanity-,$(PAIRS)) ## ansible-test sanity, on each ansible-core
sanity-2.19 sanity-2.21: sanity-%: setup-%
	build/venv/$*/bin/python make/run_ansible_test.py build $* sanity --color no $(LEFT_OUT:%=--skip-test %)
