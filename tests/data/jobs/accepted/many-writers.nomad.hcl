job "writers" {
  group "g" {
    count = 4

    volume "data" {
      type            = "csi"
      source          = "db"
      access_mode     = "multi-node-multi-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "exec"
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
    }
  }
}
