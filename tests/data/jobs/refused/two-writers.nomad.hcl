# expect: job/too-many-users
job "x" {
  group "g" {
    count = 2

    volume "data" {
      type            = "csi"
      source          = "db"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "exec"
    }
  }
}
