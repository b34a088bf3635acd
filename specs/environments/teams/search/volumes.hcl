set = "search-${var.env}"

variable "shards" {
  type    = list(string)
  default = ["local"]
}

volume "index" {
  for_each     = var.shards
  type         = "csi"
  class        = "fast"
  capacity_min = local.is_prod ? "200GiB" : "5GiB"
  parameters   = { shard = each.key }
  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
}
