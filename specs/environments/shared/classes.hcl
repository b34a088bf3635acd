# What all teams share: the environment, and classes of storage. A directory without a set belongs to every command that
# names it.

variable "env" {
  type        = string
  description = "The environment: dev, test or prod"
  validation {
    condition     = contains(["dev", "test", "prod"], var.env)
    error_message = "expected dev, test or prod"
  }
}

locals {
  zones   = ["eu-1a", "eu-1b", "eu-1c"]
  is_prod = var.env == "prod"
}

class "fast" {
  plugin_id  = "ceph-${var.env}"
  name       = "${var.env}-${volume.key}"
  parameters = { pool = "nvme", imageFeatures = "layering" }
  secrets {
    userID  = env("CEPH_USER")
    userKey = local.is_prod ? nomad_var("ceph/prod", "key") : env("CEPH_KEY")
  }
}

class "shared" {
  plugin_id = "nfs-${var.env}"
  name      = "${var.env}-${volume.key}"
}
