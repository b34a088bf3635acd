job "raw" {
  group "g" {
    volume "data" {
      type            = "csi"
      source          = "db"
      access_mode     = "single-node-writer"
      attachment_mode = "block-device"
    }
    task "t" {
      driver = "exec"
      volume_mount {
        volume      = "data"
        destination = "/dev/disk"
      }
    }
  }
}
