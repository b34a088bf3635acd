# expect: job/per-alloc
job "x" {
  type = "system"
  group "g" {
    volume "data" {
      type            = "csi"
      source          = "db"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
      per_alloc       = true
    }
    task "t" {
      driver = "exec"
    }
  }
}
