# A volume of the embedded plugin, on this machine (docs/plugin.md).
#
#   nomad-csi volume create --embedded -f specs/hostpath.hcl

# What jobs call the volume; unique in its namespace.
id = "database"

# What people and the provider call it. A new volume needs one.
name = "database"

type      = "csi"
plugin_id = "hostpath"

# The namespace it lives in; without this line, that of the command or `default`.
# namespace = "default"

# How large it shall be: at least and at most. `10GiB` is 10 * 2^30 bytes, `10G` is 10 * 10^9.
capacity_min = "1GiB"
capacity_max = "10GiB"

# How it may be used; repeat the block for each way. A job picks one of them.
#
# access_mode: single-node-reader-only, single-node-writer, multi-node-reader-only,
#              multi-node-single-writer or multi-node-multi-writer
# attachment_mode: file-system or block-device
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

capability {
  access_mode     = "single-node-reader-only"
  attachment_mode = "file-system"
}

# How it is mounted. Run as root, the embedded plugin gives a volume with a size a file system of
# its own: ext4, or xfs or btrfs where they are installed.
# mount_options {
#   fs_type     = "ext4"
#   mount_flags = ["noatime"]
# }

# Where it shall be reachable from, if the plugin knows places.
# topology_request {
#   required {
#     topology {
#       segments {
#         zone = "eu-1a"
#       }
#     }
#   }
# }

# What the provider wants to see, and its own settings for a new volume. The embedded plugin has no
# secrets; it knows backing (image or directory), direct_io and read_ahead_kib.
# secrets {
#   token = "placeholder"
# }
# parameters {
#   backing = "directory"
# }

# To register a volume that the provider has already, say the provider's ID of it:
# external_id = "vol-0123456789"
