job "lifecycle" {
  group "g" {
    volume "data" {
      type            = "csi"
      source          = "db"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "exec"
      leader = true
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
    }

    task "init" {
      driver = "exec"

      lifecycle {
        hook    = "prestart"
        sidecar = false
      }

      volume_mount {
        volume           = "data"
        destination      = "/data"
        propagation_mode = "host-to-task"
      }
    }
  }
}
