job "mixed" {
  group "g" {
    count = 4

    volume "data" {
      type            = "csi"
      source          = "db"
      access_mode     = "multi-node-single-writer"
      attachment_mode = "file-system"
      read_only       = true
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
