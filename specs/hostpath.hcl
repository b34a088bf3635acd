# A volume of the embedded plugin, on this machine (docs/plugin.md).
#
#   nomad-csi volume create --embedded -f specs/hostpath.hcl

# The volume's ID in jobs, unique in its namespace.
id = "database"

# The volume's name at the provider. It is required to create a volume.
name = "database"

type      = "csi"
plugin_id = "hostpath"

# The volume's namespace. The default is the command's namespace, or `default`.
# namespace = "default"

# The minimum and maximum size. `10GiB` is 10 * 2^30 bytes, `10G` is 10 * 10^9 bytes.
capacity_min = "1GiB"
capacity_max = "10GiB"

# The access and attachment modes. Repeat the block to allow several; a job uses one of them.
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

# The file system and mount flags. With root privileges, the embedded plugin creates a file system for
# each volume with a size: ext4, or xfs or btrfs if installed.
# mount_options {
#   fs_type     = "ext4"
#   mount_flags = ["noatime"]
# }

# The topologies from which the volume must be accessible, if the plugin supports topologies.
# topology_request {
#   required {
#     topology {
#       segments {
#         zone = "eu-1a"
#       }
#     }
#   }
# }

# Secrets for the plugin, and its parameters for a new volume. The embedded plugin uses no secrets. Its
# parameters are backing (image or directory), direct_io and read_ahead_kib.
# secrets {
#   token = "placeholder"
# }
# parameters {
#   backing = "directory"
# }

# To register an existing volume, set the provider's ID:
# external_id = "vol-0123456789"
