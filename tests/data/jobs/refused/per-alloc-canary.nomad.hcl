# expect: job/per-alloc
job "x" {
  group "g" {
    update {
      canary = 1
    }

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
