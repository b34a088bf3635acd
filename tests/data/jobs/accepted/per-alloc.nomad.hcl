job "shards" {
  group "g" {
    count = 3

    volume "data" {
      type            = "csi"
      source          = "db"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
      per_alloc       = true
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
