# A Hetzner Cloud volume, by its CSI driver (provider csi.hetzner.cloud).
# The API token stands in the driver's configuration, not here.

id        = "hetzner-database"
name      = "hetzner-database"
type      = "csi"
plugin_id = "hetzner"

# The smallest volume is 10 GB.
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

# Without this the volume is made where the controller runs.
topology_request {
  required {
    topology {
      segments {
        "csi.hetzner.cloud/location" = "fsn1"
      }
    }
  }
}
