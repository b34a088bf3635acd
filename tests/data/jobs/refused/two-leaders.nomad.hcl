# expect: job/invalid-value
job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      leader = true
    }
    task "u" {
      driver = "exec"
      leader = true
    }
  }
}
