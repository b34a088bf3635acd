# A Hetzner Cloud volume of its CSI driver (provider csi.hetzner.cloud).
# The driver's configuration contains the API token.

id        = "hetzner-database"
name      = "hetzner-database"
type      = "csi"
plugin_id = "hetzner"

# The minimum size is 10 GB.
capacity_min = "10GiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "block-device"
}

mount_options {
  fs_type = "ext4"
}

# The default is the location of the controller.
topology_request {
  required {
    topology {
      segments {
        "csi.hetzner.cloud/location" = "fsn1"
      }
    }
  }
}
