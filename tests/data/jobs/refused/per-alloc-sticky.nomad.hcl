# expect: job/per-alloc
job "x" {
  group "g" {
    volume "data" {
      type      = "host"
      source    = "db"
      per_alloc = true
      sticky    = true
    }
    task "t" {
      driver = "exec"
    }
  }
}
