# expect: job/duplicate
# Nomad accepts this.
# Reason: Nomad uses the last one, so a task could write to the wrong volume.
job "x" {
  group "g" {
    volume "data" {
      type            = "csi"
      source          = "db"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    volume "data" {
      type            = "csi"
      source          = "other"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "exec"
    }
  }
}
