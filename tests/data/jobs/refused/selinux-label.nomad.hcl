# expect: job/unknown-word
job "x" {
  group "g" {
    volume "data" {
      type            = "csi"
      source          = "db"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "exec"
      volume_mount {
        volume      = "data"
        destination = "/data"
        selinux_label = "q"
      }
    }
  }
}
