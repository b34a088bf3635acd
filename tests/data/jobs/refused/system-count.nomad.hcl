# expect: job/invalid-value
job "x" {
  type = "system"
  group "g" {
    count = 2
    task "t" {
      driver = "exec"
    }
  }
}
