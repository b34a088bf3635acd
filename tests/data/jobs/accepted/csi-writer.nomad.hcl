job "writer" {
  group "g" {
    volume "data" {
      type            = "csi"
      source          = "db"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo ${NOMAD_ALLOC_INDEX} > /data/index"]
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
    }
  }
}
