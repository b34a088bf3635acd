set = "payments-${var.env}"

variable "database_size" {
  default = "10GiB"
}

defaults {
  type  = "csi"
  class = "fast"
  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
}

# A volume for each allocation of a job with `per_alloc`: `pg[0]`, `pg[1]`, `pg[2]`.
volume "pg" {
  count            = 3
  capacity_min     = var.database_size
  protect          = local.is_prod
  topology_request = { required = [{ segments = { zone = element(local.zones, count.index) } }] }
}

volume "audit" {
  enabled      = local.is_prod
  capacity_min = bytes("1TiB") * 2
}
