set = "platform-${var.env}"

locals {
  services = {
    registry   = { size = "50GiB", flags = ["noatime"] }
    monitoring = { size = "100GiB", flags = ["noatime", "nodiratime"] }
  }
}

volume "service" {
  for_each     = local.services
  source       = each.key
  type         = "csi"
  class        = "fast"
  capacity_min = each.value.size
  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
  mount_options {
    fs_type     = "ext4"
    mount_flags = each.value.flags
  }
}
