# expect: job/name
job "x" {
  id = "a b"
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
