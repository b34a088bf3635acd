# expect: job/name
job "x" {
  group "g" {
    task "a/b" {
      driver = "exec"
    }
  }
}
