# An EBS volume, by the AWS EBS CSI driver (provider ebs.csi.aws.com).
# The driver finds its credentials by itself: the instance's role, or its environment.

id        = "ebs-database"
name      = "ebs-database"
type      = "csi"
plugin_id = "aws-ebs"

capacity_min = "20GiB"
capacity_max = "40GiB"

# An EBS volume is attached to one instance at a time.
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "block-device"
}

mount_options {
  fs_type     = "ext4"
  mount_flags = ["noatime"]
}

# An EBS volume lives in one availability zone, and so do its users.
topology_request {
  required {
    topology {
      segments {
        "topology.ebs.csi.aws.com/zone" = "eu-central-1a"
      }
    }
  }
}

# All values are texts, numbers and booleans too.
parameters {
  type       = "gp3"
  iops       = "4000"
  throughput = "250"
  encrypted  = "true"

  tagSpecification_1 = "Owner=storage"
}
