# A Ceph block device of ceph-csi (provider rbd.csi.ceph.com).

id        = "rbd-database"
name      = "rbd-database"
type      = "csi"
plugin_id = "ceph-rbd"

capacity_min = "10GiB"
capacity_max = "100GiB"

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

# The client that creates, maps and deletes images: its name without `client.`, and its key.
secrets {
  userID  = "nomad"
  userKey = "PLACEHOLDER-replace-with-the-key-of-client.nomad"
}

parameters {
  # `ceph fsid`
  clusterID     = "00000000-0000-0000-0000-000000000000"
  pool          = "nomad"
  imageFeatures = "layering"
}
