# expect: job/restart
job "x" {
  group "g" {
    restart {
      attempts = 0
      mode     = "delay"
    }
    task "t" {
      driver = "exec"
    }
  }
}
