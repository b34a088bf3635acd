# expect: job/volume-source
job "x" {
  group "g" {
    volume "data" {
      type            = "csi"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "exec"
    }
  }
}
