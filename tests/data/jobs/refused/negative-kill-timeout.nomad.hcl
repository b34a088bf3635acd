# expect: job/invalid-value
job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      kill_timeout = "-1s"
    }
  }
}
