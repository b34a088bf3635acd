# expect: job/volume-mount job/volume-mount
# Nomad accepts this.
# Reason: another task that removes the directory there unmounts the volume, and the task writes beside it.
job "x" {
  group "g" {
    volume "db" {
      type            = "csi"
      source          = "db"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    volume "files" {
      type            = "csi"
      source          = "files"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "exec"
      volume_mount {
        volume      = "db"
        destination = "${NOMAD_ALLOC_DIR}/data/db"
      }
      volume_mount {
        volume      = "files"
        destination = "/files"
      }
      volume_mount {
        volume      = "db"
        destination = "files/db/"
      }
      volume_mount {
        volume      = "db"
        destination = "/local/db"
      }
    }
  }
}
