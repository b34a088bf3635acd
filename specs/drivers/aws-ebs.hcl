# An EBS volume of the AWS EBS CSI driver (provider ebs.csi.aws.com).
# The driver reads its credentials from the instance's role or from its environment.

id        = "ebs-database"
name      = "ebs-database"
type      = "csi"
plugin_id = "aws-ebs"

capacity_min = "20GiB"
capacity_max = "40GiB"

# One instance can attach an EBS volume at a time.
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

# An EBS volume and the jobs that use it are in one availability zone.
topology_request {
  required {
    topology {
      segments {
        "topology.ebs.csi.aws.com/zone" = "eu-central-1a"
      }
    }
  }
}

# All values are texts, including numbers and booleans.
parameters {
  type       = "gp3"
  iops       = "4000"
  throughput = "250"
  encrypted  = "true"

  tagSpecification_1 = "Owner=storage"
}
