# expect: job/unknown-word
job "x" {
  type = "batch"
  parameterized {
    payload = "maybe"
  }
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
