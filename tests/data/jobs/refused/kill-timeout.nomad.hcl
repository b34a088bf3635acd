# expect: job/invalid-value
job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      kill_timeout = "soon"
    }
  }
}
