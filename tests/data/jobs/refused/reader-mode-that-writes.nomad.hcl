# expect: job/volume-mode
job "x" {
  group "g" {
    volume "data" {
      type            = "csi"
      source          = "db"
      access_mode     = "multi-node-reader-only"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "exec"
    }
  }
}
