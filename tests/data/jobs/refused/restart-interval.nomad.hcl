# expect: job/restart job/restart
job "x" {
  group "g" {
    restart {
      attempts = 3
      interval = "1s"
      delay    = "1m"
    }
    task "t" {
      driver = "exec"
    }
  }
}
