# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The golden image, as the host variable declares it."""

    DOCUMENTATION = r"""
options:
  image:
    description:
      - The image that the node shall run. Taken from the host variable C(gpufleet_image).
    type: dict
    suboptions:
      name:
        description: Name of the image, as in its manifest.
        type: str
      version:
        description: Version of the image, as in its manifest.
        type: str
      named:
        description: The provisioner's own name of the image, where it has images. Used by the provisioner alone.
        type: str
      url:
        description: The artifact; an http, https or file URL, or a path.
        type: str
      sha256:
        description: The artifact's digest, which must be the signed one.
        type: str
      size:
        description: The artifact's size in bytes.
        type: int
      checksums_url:
        description: The C(SHA256SUMS) that lists artifact and manifest by their file names.
        type: str
      signature_url:
        description: The detached OpenPGP signature over C(SHA256SUMS), or over the artifact where there are no sums.
        type: str
      manifest_url:
        description: The manifest, which lies inside the image as C(/etc/gpufleet/manifest.json).
        type: str
      keyring:
        description: Path on the controller of the public keys that are trusted, binary or ASCII-armoured.
        type: path
      ca_path:
        description:
          - Path on the controller of the CA that signed the certificate of the image's server, as PEM.
            Without it the authorities count that the controller trusts anyway.
        type: path
      kernel_url:
        description: The kernel of a ramdisk image; the signed list of checksums must name it.
        type: str
      format:
        description: The kind of image. Used by the provisioner alone.
        type: str
        choices: [ramdisk, whole-disk]
"""
