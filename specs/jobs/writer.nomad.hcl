# A service that writes to the volume of specs/hostpath.hcl.
#
#   nomad-csi job run specs/jobs/writer.nomad.hcl

job "writer" {
  group "app" {
    # The volume, by the ID of its registration. `data` is its name in this group.
    volume "data" {
      type            = "csi"
      source          = "database"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    task "append" {
      driver = "exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo \"written by $NOMAD_ALLOC_NAME\" >> /data/log; echo ready; exec sleep infinity"]
      }

      volume_mount {
        volume      = "data"
        destination = "/data"
      }
    }
  }
}
