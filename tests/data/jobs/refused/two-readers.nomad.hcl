# expect: job/too-many-users
job "x" {
  group "g" {
    count = 2

    volume "data" {
      type            = "csi"
      source          = "db"
      access_mode     = "single-node-reader-only"
      attachment_mode = "file-system"
      read_only       = true
    }
    task "t" {
      driver = "exec"
    }
  }
}
