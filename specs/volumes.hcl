# Several volumes in one file, one block each.
#
#   nomad-csi apply --embedded -f specs/volumes.hcl
#
# The block's label is the volume's ID, unless `source` sets another one.

volume "metrics" {
  type      = "csi"
  name      = "metrics"
  plugin_id = "hostpath"

  capacity_min = "2GiB"

  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
}

volume "reference" {
  type      = "csi"
  source    = "reference-data"
  name      = "reference-data"
  plugin_id = "hostpath"

  # Checked against the access modes below, so a mistake cannot make the volume writable. Never sent.
  read_only = true

  capability {
    access_mode     = "multi-node-reader-only"
    attachment_mode = "file-system"
  }
}
