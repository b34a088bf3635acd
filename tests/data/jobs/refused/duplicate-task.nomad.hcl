# expect: job/duplicate
job "x" {
  group "g" {
    task "t" {
      driver = "exec"
    }
    task "t" {
      driver = "exec"
    }
  }
}
