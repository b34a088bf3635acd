# expect: job/name
job "x" {
  group "g" {
    volume {
      type   = "host"
      source = "db"
    }
    task "t" {
      driver = "exec"
    }
  }
}
