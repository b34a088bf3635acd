# expect: job/volume-mode
job "x" {
  group "g" {
    volume "data" {
      type        = "host"
      source      = "db"
      access_mode = "single-node-reader-only"
    }
    task "t" {
      driver = "exec"
    }
  }
}
