# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of Sphinx for the site; make/docs_site.py lays it beside the pages. No network is asked."""

from __future__ import annotations

project = "gpufleet.baremetal"
author = copyright = "gpufleet.baremetal contributors"
extensions = ["myst_parser", "sphinx_antsibull_ext"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
html_theme = "furo"
html_title = "gpufleet.baremetal"
html_copy_source = False
# Quotes are shown as they stand: they may be ones that a reader types.
smartquotes = False
# What a page links to is linked as GitHub does it.
myst_heading_anchors = 6
# A block of a language that Pygments has no lexer for is shown as text.
suppress_warnings = ["misc.highlighting_failure"]
