# expect: job/unknown-word
job "x" {
  group "g" {
    restart {
      mode = "retry"
    }
    task "t" {
      driver = "exec"
    }
  }
}
